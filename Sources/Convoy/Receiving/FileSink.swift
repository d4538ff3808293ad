// Where a download lands: a temporary name beside the target, then a rename.
import Foundation

/// Writes a body to a file that appears under its final name only when it is complete.
final class FileSink: BodySink, @unchecked Sendable {
    // @unchecked: the owner of a sink calls one member at a time, so `descriptor` needs no lock.
    private let target: URL
    private let temporary: String
    /// The open descriptor, or -1.
    private var descriptor: Int32

    init(target: URL) throws(RequestError) {
        self.target = target
        temporary = target.deletingLastPathComponent().path + "/.convoy-\(UUID().uuidString).part"
        // Never an existing file, never through a symbolic link, never inherited by a child process.
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw Self.failure("could not be created", temporary, errno) }
    }

    deinit { discard() }

    func write(_ data: Data) throws(RequestError) {
        guard descriptor >= 0 else { return }
        let problem: Int32? = data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                let written = Foundation.write(descriptor, piece.baseAddress, piece.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if written == 0 || errno != EINTR {
                    return written == 0 ? ENOSPC : errno
                }
            }
            return nil
        }
        if let problem { throw Self.failure("could not be written", target.path, problem) }
    }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        // A late write error, of a network file system for example, shows when the file is closed.
        let isClosed = descriptor >= 0 && close(descriptor) == 0
        let what = isClosed ? "could not be put in its place" : "could not be written"
        descriptor = -1
        guard isClosed, rename(temporary, target.path) == 0 else {
            let problem = errno
            unlink(temporary)
            return completion(.failure(Self.failure(what, target.path, problem)))
        }
        completion(.success(ReceivedBody()))
    }

    func discard() {
        guard descriptor >= 0 else { return }
        close(descriptor)
        descriptor = -1
        unlink(temporary)
    }

    private static func failure(_ what: String, _ path: String, _ code: Int32) -> RequestError {
        let code = POSIXErrorCode(rawValue: code) ?? .EIO
        return RequestError(
            .destinationUnwritable, "the file \(path) \(what): \(POSIXError(code).localizedDescription)",
            underlying: POSIXError(code))
    }
}
