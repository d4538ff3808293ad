// A user name and a password, and the Basic scheme: RFC 7617.
import Foundation

struct Credential: Sendable, CustomStringConvertible, CustomReflectable {
    let user: String
    let password: String

    /// In Normalization Form C, to be sent in UTF-8 (RFC 7617, section 2.1; RFC 7616, section 4).
    init(user: String, password: String) {
        self.user = user.precomposedStringWithCanonicalMapping
        self.password = password.precomposedStringWithCanonicalMapping
    }

    /// Contains neither the user name nor the password.
    var defect: String? {
        for (name, text) in [("user name", user), ("password", password)]
        where text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
            return "the \(name) contains control characters"
        }
        return nil
    }

    var basicDefect: String? {
        if let defect { return defect }
        // The server would end the user name at the colon and read the rest as part of the password.
        return user.utf8.contains(UInt8(ascii: ":")) ? "the user name contains a colon, which Basic cannot send" : nil
    }

    var basicFieldValue: String { "Basic " + Data("\(user):\(password)".utf8).base64EncodedString() }

    var description: String { "\(user.debugDescription) with a password" }
    var customMirror: Mirror { Mirror(self, children: ["user": user]) }
}

extension Request {
    /// Sets `Authorization: Basic …` (RFC 7617) with user name and password in UTF-8, without a challenge.
    ///
    /// The field is never shown, does not follow a redirect to another origin, and is replaced by a later header of
    /// that name. Use https, because over http every router on the way can read the password. ``PasswordAuthenticator``
    /// sends a password only to servers that request it, and uses Digest if they offer it. A colon in the user name, or
    /// control characters, make the request invalid, with the reason in the error.
    public func basicAuthentication(user: String, password: String) -> Self {
        let credential = Credential(user: user, password: password)
        if let defect = credential.basicDefect { return changed { $0.defect = defect } }
        return header("Authorization", credential.basicFieldValue)
    }
}
