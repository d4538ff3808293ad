// What Foundation sees of an error.
import Foundation

extension RequestError: CustomNSError {
    /// The domain of these errors as an `NSError`.
    public static var errorDomain: String { "Convoy.RequestError" }

    /// The code as an `NSError` has it: a number that stays the same across versions; 1 for a code of yours.
    ///
    /// | code | number | | code | number | | code | number |
    /// |---|---|---|---|---|---|---|---|
    /// | `cancelled` | 100 | | `unacceptableStatus` | 200 | | `destinationUnwritable` | 300 |
    /// | `timedOut` | 101 | | `unacceptableContentType` | 201 | | `diskFull` | 301 |
    /// | `connectionFailed` | 102 | | `tooManyRedirects` | 202 | | `destinationExists` | 302 |
    /// | `connectionLost` | 103 | | `redirectRefused` | 203 | | `destinationInUse` | 303 |
    /// | `tlsFailed` | 104 | | `decodingFailed` | 204 | | `integrityFailed` | 304 |
    /// | `badResponse` | 105 | | `bodyTooLarge` | 205 | | `bodyUnreadable` | 305 |
    /// | `deadlineExceeded` | 106 | | `dependencyFailed` | 400 | | `bodyNotReplayable` | 306 |
    /// | `proxyFailed` | 107 | | `dependencyCycle` | 401 | | `invalidRequest` | 403 |
    /// | `transportFailed` | 108 | | `interceptorFailed` | 402 | | `managerShutDown` | 404 |
    /// | | | | `pageRepeated` | 206 | | `groupFailed` | 405 |
    public var errorCode: Int { Self.numbers[code] ?? 1 }

    /// The description, the underlying error if there is one, and the status code of an answer under `HTTPStatusCode`.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: description]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        if let response { info["HTTPStatusCode"] = response.statusCode }
        return info
    }

    private static let numbers: [Code: Int] = [
        .cancelled: 100, .timedOut: 101, .connectionFailed: 102, .connectionLost: 103, .tlsFailed: 104,
        .badResponse: 105, .deadlineExceeded: 106, .proxyFailed: 107, .transportFailed: 108,
        .unacceptableStatus: 200, .unacceptableContentType: 201, .tooManyRedirects: 202, .redirectRefused: 203,
        .decodingFailed: 204, .bodyTooLarge: 205, .pageRepeated: 206,
        .destinationUnwritable: 300, .diskFull: 301, .destinationExists: 302, .destinationInUse: 303,
        .integrityFailed: 304, .bodyUnreadable: 305, .bodyNotReplayable: 306,
        .dependencyFailed: 400, .dependencyCycle: 401, .interceptorFailed: 402, .invalidRequest: 403,
        .managerShutDown: 404, .groupFailed: 405,
    ]
}
