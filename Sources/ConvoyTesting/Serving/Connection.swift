import Convoy
import Foundation

struct Connection {
    let core: ServerCore
    let number: Int
    let socket: Descriptor
    private var reader: RequestReader
    private var writer: ReplyWriter
    private var requestCount = 0
    private var leavesInputUnread = false

    private enum Next {
        case serve, close, reset
    }

    init(core: ServerCore, number: Int, socket: Descriptor) {
        self.core = core
        self.number = number
        self.socket = socket
        reader = RequestReader(socket: socket)
        writer = ReplyWriter(socket: socket)
    }

    mutating func run() {
        var next = Next.serve
        while case .serve = next { next = serveRequest() }
        if case .reset = next {
            socket.prepareReset()
        } else if leavesInputUnread || socket.hasUnreadInput {
            drain()
        }
    }

    private mutating func serveRequest() -> Next {
        let head: RequestHead
        do {
            guard let next = try reader.readHead() else { return .close }
            head = next
        } catch {
            return reject(error)
        }
        requestCount += 1
        var request = RecordedRequest(
            method: head.method, target: head.target, headerFields: head.fields, headerBytes: head.bytes,
            connectionNumber: number, numberOnConnection: requestCount, isHTTP10: head.isHTTP10)
        var reply: Reply?
        var handler: TestServer.Handler?
        switch core.plan(for: request) {
        case .reply(let queued): reply = queued
        case .handler(let chosen, .head): reply = chosen(request)
        case .handler(let chosen, .body): handler = chosen
        }

        let body = receiveBody(of: head, as: &request, for: reply)
        core.record(request)
        switch body {
        case .complete: break
        case .lost: return .close
        case .malformed(let error): return reject(error)
        case .ended(let ending): return next(after: ending, keepsConnection: false)
        }

        guard let reply = reply ?? handler?(request) else { return .close }
        let (steps, keepsConnection) = reply.rendered(for: request, keepsAlive: head.keepsAlive)
        // The steps are performed in a separate statement. If `perform` were an argument of `next`, `next` would read
        // a copy of the writer that was made before the steps.
        let ending = writer.perform(steps)
        return next(after: ending, keepsConnection: keepsConnection)
    }

    private enum BodyResult {
        case complete, lost
        case malformed(MalformedRequest)
        case ended(ReplyWriter.Ending)
    }

    private mutating func receiveBody(
        of head: RequestHead, as request: inout RecordedRequest, for reply: Reply?
    ) -> BodyResult {
        if let steps = reply?.steps(at: .requestStart), !steps.isEmpty {
            let ending = writer.perform(steps)
            guard ending == .open else { return .ended(ending) }
        }
        if let reply, reply.ignoresRequestBody {
            request.isBodyComplete = head.framing == .none
            leavesInputUnread = head.framing != .none
            return .complete
        }
        if head.framing == .none {
            request.isBodyComplete = true
            return .complete
        }
        if head.expectsContinue, core.options.answersContinue, reply?.withholdsContinue != true {
            let ending = writer.perform([.write(Data("HTTP/1.1 100 Continue\r\n\r\n".utf8))])
            guard ending == .open else { return .lost }
        }
        var recorder = BodyRecorder(limitBytes: core.options.bodyLimitBytes)
        var ending = ReplyWriter.Ending.open
        let end = reader.readBody(
            head.framing, into: &recorder, stoppingAt: reply?.requestBodyMoments ?? [],
            mayGoOn: { byteCount in
                ending = writer.perform(reply?.steps(at: .requestBody(afterBytes: byteCount)) ?? [])
                return ending == .open
            })
        request.body = recorder.kept
        request.bodyByteCount = recorder.byteCount
        request.bodyDigest = recorder.digest
        request.trailerFields = recorder.trailerFields
        switch end {
        case .complete:
            request.isBodyComplete = true
            return .complete
        case .lost: return .lost
        case .malformed(let error): return .malformed(error)
        case .stopped:
            leavesInputUnread = true
            return .ended(ending)
        }
    }

    private mutating func reject(_ error: MalformedRequest) -> Next {
        core.countRejected()
        leavesInputUnread = true
        let statusLine = "HTTP/1.1 \(error.statusCode) \(ReasonPhrase.of(error.statusCode) ?? "Status")\r\n"
        let fields = "Content-Length: \(error.reason.utf8.count)\r\nConnection: close\r\n\r\n"
        _ = writer.perform([.write(Data((statusLine + fields + error.reason).utf8))])
        return .close
    }

    private func next(after ending: ReplyWriter.Ending, keepsConnection: Bool) -> Next {
        switch ending {
        case .open: keepsConnection && !writer.writesNoMore ? .serve : .close
        case .closed, .lost: .close
        case .reset: .reset
        }
    }

    /// Closing with unread input would send RST, and the client could lose the reply.
    private func drain() {
        socket.shutDown(reading: false, writing: true)
        var scratch = [UInt8](repeating: 0, count: 16 * 1024)
        let end = ContinuousClock.now + .seconds(2)
        while ContinuousClock.now < end {
            guard socket.waitForInput(milliseconds: 100, or: nil) == .woken else { continue }
            guard scratch.withUnsafeMutableBytes({ socket.receive(into: $0) }) > 0 else { return }
        }
    }
}
