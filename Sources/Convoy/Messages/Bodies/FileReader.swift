// The file of a request's body, while it is sent.
import Foundation

/// Reads the bytes that were promised of a file, and no others.
///
/// The length is declared before the body is sent; the file may have changed since it was looked at.
final class FileReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one at a time, as BlockingReader says.
    private let file: URL
    private let byteCount: Int64
    private let mayGrow: Bool
    private var descriptor: Int32 = -1
    private var offset: Int64 = 0

    /// - Parameter mayGrow: whether a file that has become longer is sent as it was, rather than not at all.
    init(_ file: URL, byteCount: Int64, mayGrow: Bool = true) {
        self.file = file
        self.byteCount = byteCount
        self.mayGrow = mayGrow
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> {
        if descriptor < 0 {
            // It may have become something else: opening a pipe would wait for its other end.
            let opened = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            guard opened >= 0 else { return failure(String(cString: strerror(errno))) }
            descriptor = opened
            guard let status, status.st_mode & S_IFMT == S_IFREG else { return failure("it is not a file any more") }
        }
        let wanted = min(buffer.count, Int(clamping: byteCount - offset))
        // Looked at before the last bytes are given: the server must not take it for whole.
        if !mayGrow, offset + Int64(wanted) == byteCount, let status, Int64(status.st_size) > byteCount {
            return failure("it became longer while it was sent: \(status.st_size) bytes instead of \(byteCount)")
        }
        guard wanted > 0, let base = buffer.baseAddress else { return .success(0) }
        var count = 0
        repeat { count = pread(descriptor, base, wanted, off_t(offset)) } while count < 0 && errno == EINTR
        guard count > 0 else {
            return failure(
                count == 0
                    ? "it became shorter while it was sent: \(offset) of \(byteCount) bytes"
                    : String(cString: strerror(errno)))
        }
        offset += Int64(count)
        return .success(count)
    }

    private var status: stat? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status : nil
    }

    private func failure(_ reason: String) -> Result<Int, RequestError> { .failure(.unreadable(file, reason)) }
}
