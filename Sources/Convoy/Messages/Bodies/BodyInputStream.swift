// A body as the stream that URLSession wants.
import Foundation

/// The body of one task of the loader's, and why it could not be read: the loader itself tells nothing of that.
final class LoaderBody: Sendable {
    private struct State {
        var failure: RequestError?
        var cancel: (@Sendable () -> Void)?
        var kept: OutputStream?
    }

    let body: RequestBody
    private let state = Locked(State())

    init(_ body: RequestBody) { self.body = body }

    /// Why reading it failed, or nil.
    var failure: RequestError? { state.withLock { $0.failure } }

    /// - Parameter cancel: ends the task, where a stream that ends is all that the loader understands.
    func onFailure(_ cancel: @escaping @Sendable () -> Void) { state.withLock { $0.cancel = cancel } }

    /// Notes a failure, and ends the task where that was asked for.
    ///
    /// - Parameter open: what must not be closed before that: the loader would take it for the end of the body.
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
    /// A body, to be read by the loader on its one queue.
    ///
    /// Exactly as many bytes as were declared: a stream of a file that grows meanwhile would go on behind them, as the next
    /// request on the connection; one of a file that shrinks would leave the server waiting.
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
                // Reading tells: the loader never looks at the status.
                failure = error
            }
        }

        override func close() { (status, reader) = (.closed, nil) }

        override var streamStatus: Stream.Status { status }
        override var streamError: (any Error)? { failure }
        /// The loader takes false for the end.
        override var hasBytesAvailable: Bool { remaining > 0 && status == .open }

        /// The next bytes; -1, and never an early end, when they cannot be had.
        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
            guard status == .open, maxLength > 0 else { return status == .error ? -1 : 0 }
            guard remaining > 0 else {
                // Now: the loader never closes it.
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
        /// A fresh stream of the bytes, to be opened by the loader.
        func makeStream() -> InputStream? {
            if case .data(let data) = body { return InputStream(data: data) }
            return BodyInputStream(self)
        }
    }
#else
    extension LoaderBody {
        /// A fresh stream of the bytes, to be opened by the loader; nil when there is none to be had.
        ///
        /// One end of a pair: the loader takes no stream of another class. Never run: no Apple platform was at hand.
        func makeStream() -> InputStream? {
            var ends: (input: InputStream?, output: OutputStream?)
            Stream.getBoundStreams(withBufferSize: 64 << 10, inputStream: &ends.input, outputStream: &ends.output)
            guard let input = ends.input, let output = ends.output else { return nil }
            BodyFeed(self, output).begin()
            return input
        }
    }

    /// Writes a body into a stream, on a queue of its own.
    private final class BodyFeed: @unchecked Sendable {
        // @unchecked: everything but `init` happens on the queue, one after the other.
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
            var goesOn = true
            while goesOn {
                let result = buffer.withUnsafeMutableBytes { reader.read(into: $0) }
                goesOn = take(result.map { $0 > 0 ? Data(buffer[..<$0]) : nil })
            }
        }

        /// Writes what has been read; false at the end of the body, or when the loader has closed its half.
        private func take(_ result: Result<Data?, RequestError>) -> Bool {
            switch result {
            case .success(let chunk?) where write(chunk): return true
            case .success: output.close()
            case .failure(let error): source.fail(error, keeping: output)
            }
            reading = nil
            return false
        }

        /// Writes everything; false when the loader wants no more.
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
