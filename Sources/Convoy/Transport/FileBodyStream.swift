// A file's bytes for URLSession on Linux: as many as were promised.
#if canImport(FoundationNetworking)
    import Foundation

    /// A stream of exactly the first bytes of a file.
    ///
    /// A stream of a file that grows meanwhile would go on behind them, as the next request on the connection; one of a
    /// file that shrinks would leave the server waiting.
    ///
    /// - Thread: the loader's one queue.
    final class FileBodyStream: InputStream {
        private let file: BodyFile
        private var offset: Int64 = 0
        private var status = Stream.Status.notOpen
        private var failure: RequestError?

        init(_ file: URL, byteCount: Int64) {
            self.file = BodyFile(file, byteCount: byteCount)
            super.init(data: Data())
        }

        override func open() { status = .open }
        override func close() { status = .closed }

        override var streamStatus: Stream.Status { status }
        override var streamError: (any Error)? { failure }
        override var hasBytesAvailable: Bool { offset < file.byteCount && status == .open }

        /// The next bytes; -1, and never an early end, when the file has become shorter.
        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
            guard status == .open, maxLength > 0 else { return status == .error ? -1 : 0 }
            guard offset < file.byteCount else {
                status = .atEnd
                return 0
            }
            switch file.read(into: buffer, atMost: maxLength, at: offset) {
            case .success(let count):
                offset += Int64(count)
                return count
            case .failure(let error):
                (status, failure) = (.error, error)
                return -1
            }
        }

        override func getBuffer(
            _: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length _: UnsafeMutablePointer<Int>
        ) -> Bool { false }
    }
#endif
