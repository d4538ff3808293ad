// Writes a body to the caller's OutputStream.
import Foundation

/// Writes a body to an `OutputStream` on the operation's own queue, so that a blocking stream delays nothing else.
final class StreamSink: BodySink, @unchecked Sendable {
    // @unchecked: a stream is not Sendable. Only the serial queue uses `stream` and `failure`.

    private let queue: DispatchQueue
    private var stream: OutputStream?
    private var failure: RequestError?
    /// Nil after ``discard(_:)``.
    private let backlog: Locked<Backlog?>
    private let calls: SinkCalls

    init(_ makeStream: @escaping @Sendable () -> OutputStream, limit: Int64, queue: DispatchQueue, calls: SinkCalls) {
        backlog = Locked(Backlog(limit: limit, canPause: calls.canPause))
        (self.queue, self.calls) = (queue, calls)
        queue.async {
            let stream = makeStream()
            // Foundation traps on some calls of a closed stream.
            guard stream.streamStatus == .notOpen else {
                return self.end(nil, "the output stream had been opened or closed before; create a new one each time")
            }
            stream.open()
            self.stream = stream
            if stream.streamStatus == .error || stream.streamStatus == .notOpen {
                self.end(stream, "the output stream could not be opened")
            }
        }
    }

    var isPaused: Bool { backlog.withLock { $0?.isPaused == true } }
    private var isDiscarded: Bool { backlog.withLock { $0 == nil } }

    func write(_ data: Data) throws(RequestError) {
        let backlog = backlog.withLock { backlog in
            backlog?.add(data.count)
            return backlog
        }
        try backlog?.checkLimit("the stream", "unwritten")
        queue.async { self.writeAll(data) }
    }

    func finish(_ completion: @escaping Callback<ReceivedBody>) {
        queue.async {
            // The stream may fail after the transfer has ended. The attempt then ignores `calls.fail`, so the failure
            // is reported here.
            if let failure = self.failure { return completion(.failure(failure)) }
            guard let stream = self.stream else { return }
            let memory = stream.property(forKey: .dataWrittenToMemoryStreamKey) as? Data
            stream.close()
            self.stream = nil
            // Closing the stream writes its buffered bytes, which may fail.
            guard stream.streamStatus == .error else { return completion(.success(ReceivedBody(storedData: memory))) }
            let what = "the output stream failed when it was closed"
            completion(.failure(RequestError(.destinationUnwritable, what, underlying: stream.streamError)))
        }
    }

    func discard(_ completion: @escaping @Sendable () -> Void) {
        backlog.withLock { $0 = nil }
        queue.async {
            self.stream?.close()
            self.stream = nil
        }
        // A stream that blocks must not delay the outcome.
        completion()
    }

    private func writeAll(_ data: Data) {
        defer { if backlog.withLock({ $0?.remove(data.count) == true }) { calls.caughtUp() } }
        guard let stream, !isDiscarded else { return }
        var (offset, result) = (0, 1)
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            guard let base = bytes.bindMemory(to: UInt8.self).baseAddress else { return }
            while offset < bytes.count, result > 0 {
                result = stream.write(base + offset, maxLength: bytes.count - offset)
                // The `write` of the caller's own subclass of `OutputStream` may return more than it was given.
                if result > bytes.count - offset { result = -1 }
                if result > 0 { offset += result }
            }
        }
        guard result <= 0 else { return }
        let what = result == 0 ? "the output stream is full" : "the output stream failed"
        end(stream, "\(what), after \(offset) of \(data.count) bytes of a write")
    }

    private func end(_ stream: OutputStream?, _ what: String) {
        // Foundation's `streamError` traps on some streams that have no error.
        let error = stream?.streamStatus == .error ? stream?.streamError : nil
        stream?.close()
        self.stream = nil
        guard !isDiscarded else { return }
        let what = what + (error.map { ": \($0.localizedDescription)" } ?? "")
        let failure = RequestError(.destinationUnwritable, what, underlying: error)
        self.failure = failure
        calls.fail(failure)
    }
}
