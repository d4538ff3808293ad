// The file of a request's body, while it is sent.
#if canImport(FoundationNetworking)
    import Foundation

    /// Reads the bytes that were promised of a file, and no others.
    ///
    /// The length is declared before the body is sent; the file may have changed since it was looked at.
    ///
    /// - Thread: one at a time.
    final class BodyFile: @unchecked Sendable {
        // @unchecked: `descriptor` changes on the one queue that reads; the rest is constant.
        private let url: URL
        let byteCount: Int64
        private var descriptor: Int32 = -1

        init(_ url: URL, byteCount: Int64) {
            self.url = url
            self.byteCount = byteCount
        }

        deinit { if descriptor >= 0 { close(descriptor) } }

        /// Puts the next bytes into a buffer; the result is how many, at least one.
        ///
        /// - Parameter offset: where they begin, before the end.
        func read(
            into buffer: UnsafeMutableRawPointer, atMost limit: Int, at offset: Int64
        ) -> Result<Int, RequestError> {
            if descriptor < 0 {
                // It may have become something else: opening a pipe would wait for its other end.
                let opened = open(url.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                guard opened >= 0 else { return .failure(.unreadable(url, String(cString: strerror(errno)))) }
                var status = stat()
                guard fstat(opened, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                    close(opened)
                    return .failure(.unreadable(url, "it is not a file any more"))
                }
                descriptor = opened
            }
            let wanted = min(limit, Int(clamping: byteCount - offset))
            var count = 0
            repeat { count = pread(descriptor, buffer, wanted, off_t(offset)) } while count < 0 && errno == EINTR
            if count > 0 { return .success(count) }
            let reason =
                count == 0
                ? "it became shorter while it was sent: \(offset) of \(byteCount) bytes"
                : String(cString: strerror(errno))
            return .failure(.unreadable(url, reason))
        }
    }
#endif
