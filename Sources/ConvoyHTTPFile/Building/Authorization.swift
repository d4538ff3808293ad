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
        let words = value.split(maxSplits: 2, whereSeparator: \.isWhitespace).map(String.init)
        let scheme = words.first?.lowercased() ?? ""
        if scheme == "aws" || scheme == "cognito", words.count > 2 {
            throw BuildFailure(
                what: "\(scheme.uppercased()) signatures are not supported",
                advice: "sign with curl --aws-sigv4, or send a token")
        }
        guard scheme == "basic" || scheme == "digest", words.count > 1 else {
            self = .asWritten(value)
            return
        }
        let (user, password): (String, String)
        if words.count == 3 {
            (user, password) = (words[1], String(words[2].drop(while: \.isWhitespace)))
        } else if let colon = words[1].firstIndex(of: ":") {
            (user, password) = (String(words[1][..<colon]), String(words[1][words[1].index(after: colon)...]))
        } else {
            self = .asWritten(value)
            return
        }
        self =
            scheme == "digest"
            ? .digest(user: user, password: password)
            : .asWritten("Basic " + Data("\(user):\(password)".utf8).base64EncodedString())
    }
}
