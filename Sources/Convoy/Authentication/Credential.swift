// A user name and a password, and the Basic scheme: RFC 7617.
import Foundation

/// A user name and a password; the password is never shown.
struct Credential: Sendable {
    let user: String
    let password: String

    /// Both in Normalization Form C, to be sent in UTF-8 (RFC 7617, section 2.1; RFC 7616, section 4).
    init(user: String, password: String) {
        self.user = user.precomposedStringWithCanonicalMapping
        self.password = password.precomposedStringWithCanonicalMapping
    }

    /// Why these can never be sent, or nil; names neither.
    var defect: String? {
        for (name, text) in [("user name", user), ("password", password)]
        where text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
            return "the \(name) has control characters"
        }
        return nil
    }

    /// Why these cannot be sent with the Basic scheme, or nil; names neither.
    var basicDefect: String? {
        if let defect { return defect }
        // It would end there for the server, and the rest be taken for a password.
        return user.utf8.contains(UInt8(ascii: ":")) ? "the user name has a colon, which Basic cannot send" : nil
    }

    /// The value of an `Authorization` field; only of use without a ``basicDefect``.
    var basicFieldValue: String { "Basic " + Data("\(user):\(password)".utf8).base64EncodedString() }
}

extension Credential: CustomStringConvertible, CustomReflectable {
    var description: String { "\(user.debugDescription) with a password" }
    var customMirror: Mirror { Mirror(self, children: ["user": user]) }
}
