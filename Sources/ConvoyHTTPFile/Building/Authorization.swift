// Short forms of the Authorization field, such as `Authorization: Basic user password`.
import Foundation

/// The value of an `Authorization` field: text to send, or the credentials for a digest challenge.
enum Authorization: Hashable {
    case asWritten(String)
    case digest(user: String, password: String)

    /// Reads the value of an `Authorization` field.
    ///
    /// After `Basic`, a user name and a password are encoded. After `Digest`, they are stored for the challenge. AWS
    /// and Cognito signatures are rejected. Any other value is sent unchanged.
    init(_ value: String) throws(BuildFailure) {
        let words = value.split(maxSplits: 1, whereSeparator: \.isWhitespace)
        let scheme = words.first?.lowercased() ?? ""
        let rest = words.dropFirst().first?.drop(while: \.isWhitespace) ?? ""
        if scheme == "aws" || scheme == "cognito", rest.contains(where: \.isWhitespace) {
            throw BuildFailure(
                what: "\(scheme.uppercased()) signatures are not supported",
                advice: "sign with curl --aws-sigv4, or send a token")
        }
        // A user name has no colon (RFC 7617), but a password may have colons and blanks.
        guard scheme == "basic" || scheme == "digest",
            let end = rest.firstIndex(where: { $0 == ":" || $0.isWhitespace })
        else {
            self = .asWritten(value)
            return
        }
        let last = rest[end...].dropFirst()
        let (user, password) = (
            String(rest[..<end]), String(rest[end] == ":" ? last : last.drop(while: \.isWhitespace))
        )
        self =
            scheme == "digest"
            ? .digest(user: user, password: password)
            : .asWritten("Basic " + Data("\(user):\(password)".utf8).base64EncodedString())
    }
}
