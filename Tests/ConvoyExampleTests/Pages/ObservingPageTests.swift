// The code of the page "Logs, metrics and traces", against a server.
import Convoy
import ConvoyTesting
import Foundation
import Testing

/// A logger with the interface that the page assumes.
private nonisolated struct ProgramLogger: Sendable {
    enum Level { case info, error }
    let lines: EventCollector

    func log(_ level: Level, _ line: String) { lines.add("\(level) \(line)") }
}

/// Collects texts of any thread.
private nonisolated final class EventCollector: @unchecked Sendable {
    // @unchecked: the lock guards the texts.
    private let lock = NSLock()
    private var texts: [String] = []

    func add(_ text: String) { lock.withLock { texts.append(text) } }
    var all: [String] { lock.withLock { texts } }
}

private nonisolated struct Registry: Sendable {
    let lines = EventCollector()

    func count(_ name: String, _ labels: [String: String]) { lines.add("\(name) \(labels["result"] ?? "")") }
    func time(_ name: String, _ duration: Duration, _ labels: [String: String]) { lines.add(name) }
}

private nonisolated struct Span {
    let parent: String?
    let name: String
    let status: Int?
    let duration: Duration
}

@Suite struct ObservingPageTests {
    @Test func monitors() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(503), .status(200, body: "a"), .status(404)])
        let archive = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).har")
        defer { try? FileManager.default.removeItem(at: archive) }
        var configuration = RequestManager.Configuration(baseURL: server.url())
        configuration.retries = RetryPolicy(maxRetries: 1, baseDelay: .milliseconds(1))
        let logger = ProgramLogger(lines: EventCollector())

        configuration.monitors = [LogMonitor(minimumLevel: .debug)]
        let logging = LogMonitor(minimumLevel: .info) { level, line in
            logger.log(level == .error ? .error : .info, line)
        }
        struct Metrics: EventMonitor {
            let registry: Registry

            func operation(
                _ operation: AnyRequestOperation, did event: RequestEvent
            ) {
                guard case .finished(let error) = event else { return }
                let host = operation.request?.url.host() ?? ""
                let result = error.map { "\($0.code)" } ?? "success"
                registry.count("http_requests", ["host": host, "result": result])
                for attempt in operation.attempts {
                    let time = attempt.started.duration(to: attempt.ended)
                    registry.time("http_attempt", time, ["host": host])
                    if let new = attempt.metrics, !new.isReusedConnection {
                        registry.time("http_connect", new.connect, ["host": host])
                    }
                }
            }
        }
        struct Tracing: RequestInterceptor {
            let traceID: String

            func adapt(
                _ request: PreparedRequest, for attempt: AttemptContext
            ) async throws -> PreparedRequest {
                var request = request
                let spanID = String(UInt64.random(in: 1...(.max)), radix: 16)
                let padding = String(repeating: "0", count: 16 - spanID.count)
                let parent = "00-\(traceID)-\(padding)\(spanID)-01"
                request.headerFields["traceparent"] = parent
                return request
            }
        }
        func spans(of operation: AnyRequestOperation) -> [Span] {
            operation.attempts.map { attempt in
                Span(
                    parent: attempt.request.headerFields["traceparent"],
                    name: "\(attempt.method) \(attempt.url.path())",
                    status: attempt.statusCode,
                    duration: attempt.started.duration(to: attempt.ended))
            }
        }
        let registry = Registry()
        configuration.monitors = [logging, Metrics(registry: registry)]
        let traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
        configuration.interceptors = [Tracing(traceID: traceID)]
        let recorder = HARRecorder(bodyLimitBytes: 64 << 10)
        configuration.monitors.append(recorder)
        let manager = RequestManager(configuration: configuration)
        let operation = manager.operation(Request<Data>.get("a"))
        manager.enqueue(operation)
        _ = try await operation.response()
        _ = try? await manager.send(Request<Data>.get("b"))
        await manager.drain()
        try recorder.write(to: archive)
        print(manager.why(operation))

        let lines = logger.lines.all
        #expect(lines.count == 3)
        #expect(lines.last?.hasPrefix("error ") == true)
        let counted = registry.lines.all
        #expect(
            counted.filter { $0.hasPrefix("http_requests") } == [
                "http_requests success", "http_requests unacceptableStatus",
            ])
        #expect(counted.count { $0 == "http_attempt" } == 3)
        let parents = server.recordedRequests.map { $0.value(of: "traceparent") }
        #expect(parents.prefix(2) == spans(of: operation).map(\.parent)[...])
        #expect(Set(parents).count == 3)
        #expect(spans(of: operation).map(\.status) == [503, 200])
        #expect(try String(contentsOf: archive, encoding: .utf8).contains("\"traceparent\""))
    }
}
