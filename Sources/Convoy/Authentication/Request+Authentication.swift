// Credentials a request brings along unasked: RFC 7617.

extension Request {
    /// Sets `Authorization: Basic …` (RFC 7617), user name and password in UTF-8, whether the server asks for it or not.
    ///
    /// Neither is shown in descriptions or logs, and neither follows a redirect to another origin; a later header of that
    /// name takes their place. Over http the password can be read on the way: use https. With
    /// ``PasswordAuthenticator`` it is sent to servers that ask for it only, with Digest where they offer that.
    ///
    /// A user name with a colon, or control characters in either, make the request invalid, with the reason.
    public func basicAuthentication(user: String, password: String) -> Self {
        let credential = Credential(user: user, password: password)
        if let defect = credential.basicDefect { return changed { $0.defect = defect } }
        return header("Authorization", credential.basicFieldValue)
    }
}
