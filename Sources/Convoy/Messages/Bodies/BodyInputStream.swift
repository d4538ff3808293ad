// A body as the stream that URLSession needs.
import Foundation

final class LoaderBody: Sendable {
    private struct State {
        var failure: RequestError?
        var cancel: (@Sendable () -> Void)?
        var kept: OutputStream?
    }

    let body: RequestBody
    private let state = Locked(State())

    init(_ body: RequestBody) { self.body = body }

    var failure: RequestError? { state.withLock { $0.failure } }

    /// Cancelling is needed on Apple platforms, where URLSession notices the end of a stream but not its error.
    func onFailure(_ cancel: @escaping @Sendable () -> Void) { state.withLock { $0.cancel = cancel } }

    // Only the first failure counts. If the stream in `open` closed, URLSession would send the short body as complete.
    func fail(_ error: RequestError, keeping open: OutputStream? = nil) {
        let cancel = state.withLock { state in
            state.failure = state.failure ?? error
            state.kept = open
            return state.cancel
        }
        cancel?()
    }
}

#if canImport(FoundationNetworking)
    /// Exactly the declared number of bytes: the server would read extra bytes of a grown file as the next request on
    /// the connection, and wait for the missing bytes of a shrunken file.
    final class BodyInputStream: InputStream {
        private let source: LoaderBody
        private var reader: (any BlockingReader)?
        private var status = Stream.Status.notOpen
        private var failure: RequestError?
        private var remaining: Int64

        init(_ source: LoaderBody) {
            self.source = source
            remaining = source.body.byteCount ?? .max
            super.init(data: Data())
        }

        override func open() {
            guard status == .notOpen else { return }
            status = .open
            do throws(RequestError) {
                guard case .blocking(let reader) = try source.body.begin() else {
                    throw RequestError(.bodyUnreadable, "URLSession cannot wait for a body")
                }
                self.reader = reader
            } catch {
                // `read` reports the error, because URLSession never checks the status of the stream.
                failure = error
            }
        }

        override func close() { (status, reader) = (.closed, nil) }

        override var streamStatus: Stream.Status { status }
        override var streamError: (any Error)? { failure }
        /// Whether more bytes may follow; URLSession treats false as the end of the body.
        override var hasBytesAvailable: Bool { remaining > 0 && status == .open }

        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
            guard status == .open, maxLength > 0 else { return status == .error ? -1 : 0 }
            guard remaining > 0 else {
                // The reader is released here, because URLSession never closes the stream.
                (status, reader) = (.atEnd, nil)
                return 0
            }
            let result: Result<Int, RequestError> =
                failure.map { .failure($0) }
                ?? reader?.read(into: UnsafeMutableRawBufferPointer(start: buffer, count: maxLength)) ?? .success(0)
            switch result {
            case .success(let count):
                remaining = count == 0 ? 0 : max(0, remaining - Int64(count))
                return count
            case .failure(let error):
                (status, failure, reader) = (.error, error, nil)
                source.fail(error)
                return -1
            }
        }

        override func getBuffer(
            _: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length _: UnsafeMutablePointer<Int>
        ) -> Bool { false }
    }

    extension LoaderBody {
        func makeStream() -> InputStream? {
            if case .data(let data) = body { return InputStream(data: data) }
            return BodyInputStream(self)
        }
    }
#else
    extension LoaderBody {
        // One end of a bound pair, because URLSession accepts no subclass of `InputStream`. Never run, because no Apple
        // platform was available.
        func makeStream() -> InputStream? {
            var ends: (input: InputStream?, output: OutputStream?)
            Stream.getBoundStreams(withBufferSize: 64 << 10, inputStream: &ends.input, outputStream: &ends.output)
            guard let input = ends.input, let output = ends.output else { return nil }
            BodyFeed(self, output).begin()
            return input
        }
    }

    private final class BodyFeed: @unchecked Sendable {
        // @unchecked: everything but `init` runs on the serial queue.
        private let source: LoaderBody
        private let output: OutputStream
        private let queue = DispatchQueue(label: "convoy.body-feed")
        private var reading: BodyReading?

        init(_ source: LoaderBody, _ output: OutputStream) {
            self.source = source
            self.output = output
        }

        func begin() {
            queue.async { [self] in
                output.open()
                do throws(RequestError) {
                    reading = try source.body.begin()
                    next()
                } catch {
                    source.fail(error, keeping: output)
                }
            }
        }

        private func next() {
            switch reading {
            case nil: break
            case .blocking(let reader): feed(from: reader)
            case .waiting(let reader):
                reader.read { result in
                    self.queue.async { if self.take(result) { self.next() } }
                    return false
                }
            }
        }

        private func feed(from reader: any BlockingReader) {
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            var continues = true
            while continues {
                let result = buffer.withUnsafeMutableBytes { reader.read(into: $0) }
                continues = take(result.map { $0 > 0 ? Data(buffer[..<$0]) : nil })
            }
        }

        /// Writes a chunk; false at the end of the body, after an error, or if URLSession has closed the other stream.
        private func take(_ result: Result<Data?, RequestError>) -> Bool {
            switch result {
            case .success(let chunk?) where write(chunk): return true
            case .success: output.close()
            case .failure(let error): source.fail(error, keeping: output)
            }
            reading = nil
            return false
        }

        private func write(_ chunk: Data) -> Bool {
            var rest = Array(chunk)[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBufferPointer { buffer in
                    buffer.baseAddress.map { output.write($0, maxLength: buffer.count) } ?? -1
                }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }
#endif
