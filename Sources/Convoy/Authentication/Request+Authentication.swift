// Credentials that a request carries without a challenge: RFC 7617.

extension Request {
    /// Sets `Authorization: Basic …` (RFC 7617) with user name and password in UTF-8.
    ///
    /// The field is sent without a challenge.
    ///
    /// Descriptions and logs do not show user name and password. The field does not follow a redirect to another
    /// origin. A later header of that name replaces the field. Use https, because over http every router on the way can
    /// read the password. ``PasswordAuthenticator`` sends a password only to servers that request it, and uses Digest
    /// if they offer it.
    ///
    /// A colon in the user name, or control characters in user name or password, make the request invalid. The error
    /// contains the reason.
    public func basicAuthentication(user: String, password: String) -> Self {
        let credential = Credential(user: user, password: password)
        if let defect = credential.basicDefect { return changed { $0.defect = defect } }
        return header("Authorization", credential.basicFieldValue)
    }
}
