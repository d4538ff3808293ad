// A file's bytes for URLSession on Linux: as many as were promised.
#if canImport(FoundationNetworking)
    import Foundation

    /// A stream of exactly the first bytes of a file.
    ///
    /// The length is declared before the body is sent. A stream of a file that grows meanwhile would go on behind it, as the
    /// next request on the connection; one of a file that shrinks would leave the server waiting.
    ///
    /// - Thread: the loader's one queue.
    final class FileBodyStream: InputStream {
        private let file: URL
        private let byteCount: Int64
        private var offset: Int64 = 0
        private var descriptor: Int32 = -1
        private var status = Stream.Status.notOpen
        private var failure: POSIXError?

        init(_ file: URL, byteCount: Int64) {
            self.file = file
            self.byteCount = byteCount
            super.init(data: Data())
        }

        deinit { if descriptor >= 0 { Foundation.close(descriptor) } }

        override func open() {
            descriptor = Foundation.open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            if descriptor >= 0 { status = .open } else { fail(errno) }
        }

        override func close() {
            if descriptor >= 0 { Foundation.close(descriptor) }
            (descriptor, status) = (-1, .closed)
        }

        override var streamStatus: Stream.Status { status }
        override var streamError: (any Error)? { failure }
        override var hasBytesAvailable: Bool { offset < byteCount && status == .open }

        /// The next bytes; -1, and never an early end, when the file has become shorter.
        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
            guard status == .open else { return status == .error ? -1 : 0 }
            let wanted = min(maxLength, Int(clamping: byteCount - offset))
            guard wanted > 0 else {
                status = .atEnd
                return 0
            }
            var count = 0
            repeat { count = pread(descriptor, buffer, wanted, off_t(offset)) } while count < 0 && errno == EINTR
            guard count > 0 else {
                fail(count == 0 ? ENODATA : errno)
                return -1
            }
            offset += Int64(count)
            return count
        }

        override func getBuffer(
            _: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length _: UnsafeMutablePointer<Int>
        ) -> Bool { false }

        private func fail(_ code: Int32) {
            status = .error
            failure = POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        }
    }
#endif
