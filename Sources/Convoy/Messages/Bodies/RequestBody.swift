// The body of a request: bytes in memory, files, and bytes that the caller's code produces.
import Foundation

/// The body of a request.
public enum RequestBody: Sendable, Hashable {
    /// Bytes in memory.
    case data(Data)
    /// The bytes of a file, read while they are sent.
    ///
    /// - Parameter byteCount: the file's size when the request had become ready to run. A shorter file fails the
    ///   request; of a longer one, only this many bytes are sent.
    indirect case file(URL, byteCount: Int64)
    /// Bodies end to end, as in a ``MultipartForm``. A file among them whose size has changed fails the request.
    case joined([RequestBody])
    /// Bytes that are produced while they are sent.
    case stream(BodyStream)

    /// The length in bytes; nil for a stream of unknown length.
    public var byteCount: Int64? {
        switch self {
        case .data(let data): Int64(data.count)
        case .file(_, let byteCount): byteCount
        case .joined(let bodies): bodies.reduce(0) { sum, body in sum.flatMap { body.byteCount?.saturatingSum($0) } }
        case .stream(let stream): stream.byteCount
        }
    }

    private var streams: [BodyStream] {
        switch self {
        case .data, .file: []
        case .joined(let bodies): bodies.flatMap(\.streams)
        case .stream(let stream): [stream]
        }
    }

    /// Whether the body can be sent again from its beginning, for a retry or for a redirect that keeps the body.
    public var canRepeat: Bool { streams.allSatisfy(\.canRepeat) }

    var isUsedUp: Bool { streams.contains(where: \.isUsedUp) }

    /// The bytes, if they are in memory.
    public var data: Data? { if case .data(let data) = self { data } else { nil } }
}

/// As the caller gave it; files are checked when the request is ready to run.
enum GivenBody: Sendable {
    case data(Data)
    case file(URL)
    case stream(BodyStream)
    case multipart(MultipartForm)
    /// JSON that is encoded when an operation is made, with its manager's encoder; nil for a default encoder.
    case json(@Sendable (JSONEncoder?) throws -> Data)

    var usesDisk: Bool {
        switch self {
        case .data, .stream, .json: false
        case .file: true
        case .multipart(let form): form.hasFiles
        }
    }

    func prepared() -> Result<RequestBody, RequestError> {
        switch self {
        case .json: .failure(RequestError(.invalidRequest, "its JSON body has not been encoded"))
        case .data(let data): .success(.data(data))
        case .file(let file): Self.look(at: file).map { .file(file, byteCount: $0) }
        case .stream(let stream): .success(.stream(stream))
        case .multipart(let form): form.prepared()
        }
    }

    static func look(at file: URL) -> Result<Int64, RequestError> {
        var status = stat()
        func failure(_ reason: String) -> Result<Int64, RequestError> { .failure(.unreadable(file, reason)) }
        guard file.isFileURL else { return failure("it is not a file URL") }
        // The system would use only the part before the NUL.
        guard !file.path.utf8.contains(0) else { return failure("its name contains NUL") }
        guard stat(file.path, &status) == 0 else { return failure(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            return failure(status.st_mode & S_IFMT == S_IFDIR ? "it is a directory" : "it is not a file")
        }
        guard access(file.path, R_OK) == 0 else { return failure("it is not readable") }
        guard status.st_size > 0 || !hasHiddenBytes(file) else {
            return failure(
                "the system reports its size as 0, but it has content, as in /proc; read it, and send the data")
        }
        return .success(Int64(status.st_size))
    }

    private static func hasHiddenBytes(_ file: URL) -> Bool {
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var (status, byte) = (stat(), UInt8(0))
        // A file that has grown since the first `stat` has a size above 0 here.
        return read(descriptor, &byte, 1) > 0 && fstat(descriptor, &status) == 0 && status.st_size == 0
    }
}

extension RequestError {
    static func unreadable(_ file: URL, _ reason: String) -> RequestError {
        RequestError(.bodyUnreadable, "the file \(file.path) cannot be sent: \(reason)")
    }

    static let bodyNotReplayable = RequestError(
        .bodyNotReplayable,
        "its body would have to be sent again from its start, but its stream can be read only once")
}
