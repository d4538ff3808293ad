// The representation of an error as an `NSError`.
import Foundation

extension RequestError: CustomNSError {
    /// The domain of these errors as an `NSError`.
    public static var errorDomain: String { "Convoy.RequestError" }

    /// The code of the `NSError`, which is stable across versions; 1 for your own codes.
    ///
    /// <doc:Failures> has the table.
    public var errorCode: Int { code.number }

    /// The description, the underlying error, and the status code of a response as `HTTPStatusCode`.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        if let response { info["HTTPStatusCode"] = response.statusCode }
        return info
    }
}
