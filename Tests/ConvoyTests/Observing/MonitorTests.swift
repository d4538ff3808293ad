import Foundation
import Testing

@testable import Convoy

@Suite struct LogMonitorTests {
    private struct Line: Equatable, Sendable, CustomStringConvertible {
        let level: LogMonitor.Level
        let text: String
        var description: String { "\(level): \(text)" }
    }

    private func monitor(_ log: EventLog<Line>, _ level: LogMonitor.Level = .debug) -> LogMonitor {
        LogMonitor(minimumLevel: level) { log.record(Line(level: $0, text: $1)) }
    }

    @Test func everyAttemptAndTheOutcomeHaveALine() async throws {
        let (server, clock, log) = (StubServer.held(), VirtualClock(), EventLog<Line>())
        let manager = server.manager(monitors: [monitor(log)], clock: clock) { configuration in
            configuration.retries = .standard
            configuration.jitter = { 0.5 }
        }
        manager.isSuspended = true
        let operation = manager.enqueue(Request<Data>.get("http://me:hunter2@stub/a?b"))
        clock.advance(by: .milliseconds(20))
        manager.isSuspended = false
        let first = await server.exchanges.wait()[0]
        clock.advance(by: .milliseconds(12))
        first.answer(302, headerFields: ["Location": "http://you:hunter2@stub/b"])
        let second = await server.exchanges.wait(count: 2)[1]
        clock.advance(by: .milliseconds(8))
        second.answer(503)
        await clock.armed.wait()
        clock.advanceToNext()
        let third = await server.exchanges.wait(count: 3)[2]
        third.answer(200, body: Data(count: 5))
        _ = try await operation.response()
        let lines = await log.wait(count: 7)
        #expect(
            lines.map(\.description) == [
                "debug: GET http://stub/a?b: queued", "debug: GET http://stub/a?b: attempt 1 started",
                "info: GET http://stub/a?b: attempt 1 answered 302 after 12 ms; redirected to http://stub/b",
                "debug: GET http://stub/a?b: attempt 2 started",
                "info: GET http://stub/a?b: attempt 2 answered 503 after 8 ms; attempt 3 in 250 ms",
                "debug: GET http://stub/a?b: attempt 3 started",
                "info: GET http://stub/a?b: 200, 5 bytes in 270 ms, 20 ms queued, 3 attempts",
            ])
    }

    /// A line may be written before the URL of the request is resolved.
    @Test(arguments: [
        ("a?b", "GET http://stub/base/a?b"), ("/a", "GET http://stub/a"), ("http://other/a", "GET http://other/a"),
    ])
    func aRelativeURLIsShownAbsolute(url: String, label: String) {
        let manager = StubServer().manager { $0.baseURL = URL(string: "http://stub/base") }
        #expect(manager.operation(Request<Data>.get(url)).label == label)
    }

    @Test func aResumedFileAndAnExistingFileSayWhatWasReceived() async throws {
        let (log, directory) = (EventLog<Line>(), try TemporaryDirectory())
        let version = FileVersion(FileVersion.seeded(1, byteCount: 300_000))
        let server = StubServer.numbered { exchange, index in
            version.answer(exchange, sending: index == 0 ? 100_000 : .max, thenFailing: index == 0 ? .cut : nil)
        }
        let clock = VirtualClock()
        let manager = server.manager(monitors: [monitor(log, .info)], clock: clock) { configuration in
            configuration.retries = RetryPolicy(maxRetries: 1, baseDelay: .zero)
        }
        let request = Request.stub("file").saved(to: directory.file("target"), existing: .skip)
        _ = try await manager.send(request)
        _ = try await manager.send(request)
        let lines = await log.wait(count: 3).map(\.text)
        #expect(lines[1].contains(": 206, 300000 bytes, 100000 of them resumed, in 0 ms"), "\(lines)")
        #expect(lines[2].contains(": nothing was sent, in 0 ms"), "\(lines)")
    }

    @Test func failuresAreErrorsAndCancellationsAreNot() async {
        let (server, log) = (StubServer.held(), EventLog<Line>())
        let manager = server.manager(monitors: [monitor(log, .info)])
        let operations = ["a", "b"].map { manager.enqueue(.stub($0)) }
        await server.exchanges.wait(count: 2)
        server.exchanges.events.first { $0.request.url.path == "/a" }?.answer(404)
        operations[1].cancel()
        let lines = await log.wait(count: 2).sorted { $0.text < $1.text }
        #expect(lines.map(\.level) == [.error, .info])
        #expect(lines[0].text.hasPrefix("a: unacceptableStatus: the server answered 404 ("))
        #expect(lines[1].text.hasPrefix("b: cancelled: it was cancelled ("))
    }

    @Test func aRequestThatCannotBeSentIsNamedByItsMethodAndURL() async {
        let (server, log) = (StubServer.held(), EventLog<Line>())
        let manager = server.manager(monitors: [monitor(log, .info)])
        let operation = manager.enqueue(Request<Data>.post("ftp://me:hunter2@stub/a"))
        await manager.drain()
        let reason = "nothing was sent: the URL ftp://stub/a is neither http nor https"
        let line = await log.wait()[0].description
        #expect(line.hasPrefix("error: POST ftp://stub/a: invalidRequest: \(reason) ("), "\(line)")
        #expect(operation.description == "POST ftp://stub/a (finished)")
    }

    @Test func textOfServersAndCallersStaysOnOneLine() async {
        let (server, log) = (StubServer.held(), EventLog<Line>())
        let manager = server.manager(monitors: [monitor(log)])
        let operation = manager.enqueue(.stub("a").named("two\nlines\u{1B}[2J"))
        #expect(operation.description.isOneLine)
        #expect(manager.why(operation).isOneLine)
        let exchange = await server.exchanges.wait()[0]
        exchange.finish(RequestError(.badResponse, "it said \r\n\u{85}\u{2028}\u{1B}]0;x\u{7}"))
        let lines = await log.wait(count: 3)
        for line in lines { #expect(line.text.isOneLine, "\(line)") }
        #expect(lines.last?.text.hasPrefix("two lines [2J: badResponse: it said ") == true)
    }

    @Test func linesBelowTheLevelAreNotWritten() async {
        for level in LogMonitor.Level.allCases {
            let log = EventLog<Line>()
            let done = EventLog<Void>()
            let manager = StubServer { $0.answer(500) }.manager(monitors: [monitor(log, level), EndMonitor(done: done)])
            manager.enqueue(.stub("a"))
            await done.wait()
            #expect(log.events.allSatisfy { $0.level >= level })
            #expect(log.count == (level == .debug ? 3 : 1))
        }
    }

    #if os(Linux)
        @Test func aClosedStandardErrorEndsNothing() async {
            await #expect(processExitsWith: .success) {
                signal(SIGPIPE, SIG_DFL)
                var ends: [Int32] = [-1, -1]
                guard pipe(&ends) == 0, dup2(ends[1], STDERR_FILENO) == STDERR_FILENO else { exit(3) }
                close(ends[0])
                close(ends[1])
                let operation = RequestOperation(.stub("nobody reads this"), transport: StubServer().transport)
                LogMonitor().operation(operation, did: .finished(nil))
                close(STDERR_FILENO)
                LogMonitor().operation(operation, did: .finished(nil))
                exit(0)
            }
        }

        @Test func linesGoToStandardErrorWithTheirTime() async throws {
            let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
                let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
                LogMonitor().operation(operation, did: .started(attempt: 1))
                LogMonitor().operation(operation, did: .finished(RequestError(.badResponse, "odd")))
                exit(0)
            }
            let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
            let line = /20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z convoy error: a: badResponse: odd \(0 ms\)\n/
            #expect(text.contains(line), "\(text)")
            #expect(!text.contains("started"))
        }
    #endif
}

/// Posts the notifications of a manager's operations to a center, and records them.
@Suite struct NotificationMonitorTests {
    private let center = NotificationCenter()
    private let log = EventLog<(word: String, operation: ObjectIdentifier?, error: RequestError?)>()

    /// Sends a request, waits for a number of notifications, and returns their words.
    private func words(_ count: Int, of work: () async throws -> Void) async throws -> [String] {
        let names: [(Notification.Name, String)] = [
            (.requestOperationDidStart, "start"), (.requestOperationDidFinish, "finish"),
            (.requestOperationDidSuspend, "suspend"), (.requestOperationDidResume, "resume"),
        ]
        let observers = names.map { name, word in
            center.addObserver(forName: name, object: nil, queue: nil) { [log] notification in
                let operation = (notification.object as? AnyRequestOperation).map { ObjectIdentifier($0) }
                log.record((word, operation, notification.userInfo?[NotificationMonitor.errorKey] as? RequestError))
            }
        }
        defer { for observer in observers { center.removeObserver(observer) } }
        try await work()
        return await log.wait(count: count).map(\.word)
    }

    @Test func startSuspensionAndEndAreNotificationsWithTheOperationAsObject() async throws {
        let server = StubServer.held()
        let manager = server.manager(monitors: [NotificationMonitor(center: center)])
        let operation = manager.operation(.stub("a"))
        let words = try await words(4) {
            manager.enqueue(operation)
            let exchange = try await server.answered()
            operation.suspend()
            operation.resume()
            exchange.finish(RequestError(.connectionLost, "cut"))
        }
        #expect(words == ["start", "suspend", "resume", "finish"])
        #expect(log.events.allSatisfy { $0.operation == ObjectIdentifier(operation) })
        #expect(log.events.last?.error?.code == .connectionLost)
    }

    @Test func aSuccessHasNoErrorAndRetriesPostNoStart() async throws {
        let server = StubServer.numbered { exchange, index in exchange.answer(index == 0 ? 503 : 200) }
        let manager = server.manager(monitors: [NotificationMonitor(center: center)]) {
            $0.retries = RetryPolicy(maxRetries: 1, baseDelay: .zero)
        }
        let words = try await words(2) { _ = try await manager.enqueue(.stub("a")).response() }
        #expect(words == ["start", "finish"] && log.events.last?.error == nil)
        #expect(server.exchanges.count == 2)
    }
}

/// Signals when the monitors before it have handled all events.
struct EndMonitor: EventMonitor {
    let done: EventLog<Void>

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        if event.isFinished { done.record(()) }
    }
}
