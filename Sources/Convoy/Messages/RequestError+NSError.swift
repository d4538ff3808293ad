// What Foundation sees of an error.
import Foundation

extension RequestError: CustomNSError {
    /// The domain of these errors as an `NSError`.
    public static var errorDomain: String { "Convoy.RequestError" }

    /// The code as an `NSError` has it: a number that stays the same across versions; 1 for a code of yours.
    ///
    /// <doc:Failures> has the table.
    public var errorCode: Int { code.number }

    /// The description, the underlying error if there is one, and the status code of an answer under `HTTPStatusCode`.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        if let response { info["HTTPStatusCode"] = response.statusCode }
        return info
    }
}
