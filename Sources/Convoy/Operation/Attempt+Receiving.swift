// The receiving part of an attempt: the head, the body and its destination.
import Foundation

extension Attempt {
    func didReceive(_ head: ResponseHead) {
        guard !head.isInformational else { return }
        var head = head
        // These responses have no body, whatever length they declare (RFC 9110, section 6.4.1).
        if rules.method == .head || head.statusCode == 204 || head.statusCode == 304 { head.expectedBytes = nil }
        if !keepsInMemory {
            // The transport may report another head. The body then starts again in a new sink.
            let (begins, old) = receiving.withLock { receiving -> (Bool, (any BodySink)?) in
                guard receiving.accepts else { return (false, nil) }
                receiving.isBusy = true
                defer { receiving.sink = nil }
                return (true, receiving.sink)
            }
            guard begins else { return }
            old?.discard {}
            if !head.hasStoredCookies { operation.context.cookies?.store(head.headerFields, from: request.url) }
        }
        let (answer, refusal) = judge(head)
        let isPreview = refusal != nil || head.statusCode >= 300 && operation.mayRepeat(after: head, of: request)
        let decodesIt = rules.decodesRefusals && refusal?.code == .unacceptableStatus
        let previewBytes = decodesIt ? rules.memoryLimit(defaults) : Self.previewBytes
        var failure: RequestError?
        var sink: (any BodySink)?
        do throws(RequestError) {
            sink = isPreview ? MemorySink(limit: previewBytes, truncates: true) : try makeSink(for: head, answer)
        } catch {
            failure = error
        }
        let isCurrent = leave(sink) { [head] receiving in
            receiving.head = head
            receiving.refusal = refusal
            receiving.answer = answer
            receiving.isPreview = isPreview
            receiving.bodyCount = isPreview ? 0 : answer?.offset ?? 0
            receiving.bodyLimit = isPreview ? previewBytes : rules.bodyLimit(defaults) ?? .max
        }
        guard isCurrent else { return }
        if let failure { return fail(failure) }
        let now = operation.context.clock.now
        let isWatched = operation.state.withLock { state in
            guard state.machine.currentAttempt == number else { return false }
            state.timings.firstByteMoment = CompactInstant(now)
            // A complete response replaces the old partial file. A later attempt may resume the new one.
            if head.statusCode == 200, case .body(0, _)? = answer { state.followUp?.startsOver = false }
            if let answer {
                state.progress.begin(head, answer)
            } else {
                (state.progress.download, state.progress.resumedBytes) = (
                    ByteProgress(totalBytes: head.expectedBytes), 0
                )
            }
            return state.isWatched
        }
        if isWatched { operation.emit(.response(head)) }
        if stallDetector != nil { watchSpeed() }
    }

    var expectsLargeBody: Bool {
        switch rules.destination {
        case .memory, .nowhere: false
        case .file, .segment, .stream, .chunks: true
        }
    }

    /// Returns what the head means for a download, and why the head is not acceptable; each may be nil.
    private func judge(_ head: ResponseHead) -> (DownloadAnswer?, RequestError?) {
        var plain = head
        // The library added the range. For the original request the result is the complete file, so it counts as a 200.
        if resumePoint != nil, head.statusCode == 206 { plain.statusCode = 200 }
        let refusal = rules.refusal(of: plain, defaults) ?? rangeRefusal(head)
        guard let download else { return (nil, refusal) }
        let answer = download.judge(
            head, continuing: resumePoint, asksForRange: request.headerFields.contains("Range"),
            isRefused: refusal != nil)
        switch answer {
        case .body, .isWhole, .isUnchanged: return (answer, nil)
        case .refused: return (answer, refusal)
        case .mismatch(let reason, _):
            return (
                answer, refusal ?? RequestError(.badResponse, reason, response: head, underlying: UnexpectedRange())
            )
        }
    }

    /// Why a partial response does not fit the caller's own `Range` field (RFC 9110, section 15.3.7).
    ///
    /// Responses to several ranges, or to another unit, are not checked.
    private func rangeRefusal(_ head: ResponseHead) -> RequestError? {
        guard resumePoint == nil, head.statusCode == 206 else { return nil }
        guard let asked = request.headerFields["Range"] else {
            // For a download, `download.judge` reports an error of its own.
            guard download == nil else { return nil }
            return RequestError(.badResponse, "the server answered 206 with a part that was not requested")
        }
        guard let range = ByteRange(asked) else { return nil }
        let fields = head.headerFields.values(of: "Content-Range")
        guard fields.count == 1, let content = ContentRange(fields[0]), range.admits(content) else {
            let sent = fields.isEmpty ? "no Content-Range" : fields.joined(separator: ", ").debugDescription
            return RequestError(.badResponse, "the server answered 206 with \(sent) to the request for \(asked)")
        }
        return nil
    }

    /// Makes the sink for a body, unless the server announces more bytes than the caller allows.
    func makeSink(for head: ResponseHead, _ answer: DownloadAnswer?) throws(RequestError) -> any BodySink {
        let total = answer.map(\.totalBytes) ?? head.expectedBytes
        if let limit = rules.bodyLimit(defaults), let total, total > limit {
            throw .tooLarge("the server announced \(total) bytes", limit: limit)
        }
        guard let download, let answer else {
            return try rules.destination.makeSink(
                for: head, limit: rules.memoryLimit(defaults),
                queue: operation.state.withLock { $0.makeFollowUp().streamQueue }, calls: sinkCalls)
        }
        return DownloadSink(download, answer, head, of: request, calls: sinkCalls)
    }

    var tooLarge: RequestError {
        let limit = rules.memoryLimit(defaults)
        return .tooLarge("the body has more than \(limit) bytes", limit: limit)
    }

    private var sinkCalls: SinkCalls {
        SinkCalls(
            fail: { [weak self] in self?.fail($0) },
            caughtUp: { [weak self] in self?.operation.adjustTask() },
            canPause: operation.pausesInPlace)
    }

    /// Whether the body is kept in memory and no cookies are stored.
    ///
    /// If true, the head of a response changes only the attempt's own state, so that `close` may be called meanwhile.
    private var keepsInMemory: Bool {
        if case .memory = rules.destination { operation.context.cookies == nil } else { false }
    }

    func didReceive(_ data: Data) -> Bool {
        var failure: RequestError?
        var (isTooMuch, isToBeWritten) = (false, false)
        let taken = receiving.withLock { receiving -> (any BodySink)? in
            guard receiving.accepts, let sink = receiving.sink else { return nil }
            if sink.counts { receiving.bodyCount += Int64(data.count) }
            isTooMuch = receiving.bodyCount > receiving.bodyLimit
            if isTooMuch, !receiving.isPreview {
                failure = tooLarge
            } else if sink is MemorySink {
                do throws(RequestError) { try sink.write(data) } catch { failure = error }
            } else {
                (receiving.isBusy, isToBeWritten) = (true, true)
            }
            return sink
        }
        guard let sink = taken else { return false }
        if isToBeWritten {
            do throws(RequestError) { try sink.write(data) } catch { failure = error }
            guard leave(sink) else { return false }
        }
        if let failure {
            fail(failure)
            return false
        }
        if sink.counts { operation.attempt(number) { $0.download.completedBytes += Int64(data.count) } }
        let isPaid = !isRateControlled || acquire(data.count)
        if isTooMuch { end(nil, taskHasEnded: false) }
        return !isTooMuch && isPaid && !sink.isPaused
    }

    var maxBodyBytes: Int64? {
        receiving.withLock { receiving in
            guard receiving.bodyLimit < .max else { return nil }
            return receiving.bodyLimit - (receiving.isPreview ? 0 : receiving.answer?.offset ?? 0)
        }
    }

    func didPause() {
        operation.attemptIsPaused(number)
        operation.noteRunning()
        // The reader of the body may have caught up before the pause was recorded.
        if !isPaused { operation.adjustTask() }
    }

    func didCollect(_ metrics: TransferMetrics) {
        let kept = CopyOnWrite(metrics)
        receiving.withLock { $0.metrics = kept }
    }

    /// Called when the transport's thread no longer uses the sink.
    ///
    /// False if the attempt was closed meanwhile. In that case this method does the cleanup that `close` has left.
    private func leave(_ sink: (any BodySink)?, with change: (inout Receiving) -> Void = { _ in }) -> Bool {
        let (isOver, afterwards) = receiving.withLock { receiving in
            receiving.isBusy = false
            receiving.sink = receiving.isOver ? nil : sink
            if !receiving.isOver { change(&receiving) }
            defer { receiving.afterwards = nil }
            return (receiving.isOver, receiving.afterwards)
        }
        guard isOver else { return true }
        // `afterwards` notifies observers and calls back, so it never runs on the transport's thread.
        let rest: @Sendable () -> Void = { [operation] in if let afterwards { operation.onExecutor(afterwards) } }
        if let sink { sink.discard(rest) } else { rest() }
        return false
    }

    func didSend(totalBytes: Int64) {
        guard receiving.withLock({ $0.accepts }) else { return }
        operation.attempt(number) { $0.upload.completedBytes = totalBytes }
    }
}

extension Attempt.Receiving {
    /// The value of ``AttemptEnding/resumableBytes``.
    var resumableBytes: Int64 {
        guard case .body(let offset, _)? = answer, bodyCount > offset, let head,
            offset > 0 || Validator(of: head, now: Date()) != nil
        else { return 0 }
        return bodyCount
    }
}

extension DownloadAnswer {
    var offset: Int64 { if case .body(let offset, _) = self { offset } else { 0 } }

    /// The length of the file, if the response states it.
    fileprivate var totalBytes: Int64? {
        switch self {
        case .body(_, let totalBytes): totalBytes
        case .isWhole(let byteCount): byteCount
        case .isUnchanged, .mismatch, .refused: nil
        }
    }
}

extension Attempt: FileClient {
    /// Copies bytes of a file to the file of a download.
    ///
    /// Nil if the transport must deliver the bytes instead: for another destination, a preview, a speed limit, a
    /// minimum speed, too large a body, or an attempt that has ended.
    func didReceive(_ source: FileBytes) -> Bool? {
        guard !isRateControlled else { return nil }
        let sink = receiving.withLock { receiving -> DownloadSink? in
            guard receiving.accepts, !receiving.isPreview, let sink = receiving.sink as? DownloadSink, sink.counts,
                receiving.bodyCount + source.count <= receiving.bodyLimit
            else { return nil }
            receiving.bodyCount += source.count
            receiving.isBusy = true
            return sink
        }
        guard let sink else { return nil }
        sink.write(source)
        guard leave(sink) else { return false }
        operation.attempt(number) { $0.download.completedBytes += source.count }
        return !sink.isPaused
    }
}
