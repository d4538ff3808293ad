// The body of a request: bytes in memory, or a file.
import Foundation

/// What is sent as a request's body.
///
/// Either form has a known length and can be sent again from its start.
public enum RequestBody: Sendable, Hashable {
    /// Bytes in memory.
    case data(Data)
    /// The bytes of a file, read while they are sent.
    ///
    /// - Parameter byteCount: the file's size when the request had become ready to run. A file that is shorter when it is read fails
    ///   the request; of one that has grown, this many bytes are sent.
    case file(URL, byteCount: Int64)

    /// The length in bytes.
    public var byteCount: Int64 {
        switch self {
        case .data(let data): Int64(data.count)
        case .file(_, let byteCount): byteCount
        }
    }

    /// The bytes, where they are in memory.
    public var data: Data? { if case .data(let data) = self { data } else { nil } }
}

/// The body as the caller gave it; a file is looked at when the request is ready to run.
enum GivenBody: Sendable, Hashable {
    case data(Data)
    case file(URL)

    /// The body as it will be sent, or why it cannot be.
    func prepared() -> Result<RequestBody, RequestError> {
        switch self {
        case .data(let data): return .success(.data(data))
        case .file(let file):
            var status = stat()
            guard stat(file.path, &status) == 0 else {
                return .failure(.unreadable(file, String(cString: strerror(errno))))
            }
            guard status.st_mode & S_IFMT == S_IFREG else {
                return .failure(
                    .unreadable(file, status.st_mode & S_IFMT == S_IFDIR ? "it is a directory" : "it is not a file"))
            }
            guard access(file.path, R_OK) == 0 else { return .failure(.unreadable(file, "it may not be read")) }
            return .success(.file(file, byteCount: Int64(status.st_size)))
        }
    }
}

extension RequestError {
    /// The file of a body cannot be sent.
    static func unreadable(_ file: URL, _ reason: String) -> RequestError {
        RequestError(.bodyUnreadable, "the file \(file.path) cannot be sent: \(reason)")
    }
}
