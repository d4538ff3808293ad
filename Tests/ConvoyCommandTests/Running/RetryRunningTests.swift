import ConvoyTesting
import Foundation
import Testing

/// Tests retries and deadlines.
///
/// The tests use the command's default delays, of at most half a second each.
@Suite struct RetryRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
    }

    private func fetch(_ arguments: String...) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(["fetch", "-o", directory.url.path] + arguments).ended()
    }

    @Test func aFileArrivesAfterAReportedRetry() async throws {
        server.enqueue([.status(503, body: "busy"), .status(200, body: "file")])
        let url = server.url("/a").absoluteString
        let ending = try await fetch(url)
        #expect(ending.status == 0)
        #expect(ending.errors.hasPrefix("convoy: \(url): 503 Service Unavailable; attempt 2 of 4 in "))
        #expect(ending.errors.split(separator: "\n").count == 1)
        #expect(ending.output.contains("saved a  4 B in "))
        #expect(try Data(contentsOf: directory.url.appending(path: "a")) == Data("file".utf8))
        #expect(try directory.names() == ["a"])
    }

    @Test func jsonReportsARetryBetweenStartAndEnd() async throws {
        server.enqueue([.status(503), .status(200, body: "file")])
        let url = server.url("/a").absoluteString
        let ending = try await fetch("--json", url)
        #expect(ending.status == 0)
        #expect(ending.errors == "")
        #expect(ending.steps == ["started", "retry", "finished", "summary"])
        let retry = try #require(ending.events.dropFirst().first)
        #expect(Set(retry.keys) == ["event", "index", "url", "attempt", "code", "status", "delay_seconds"])
        #expect(retry["index"] as? Int == 0)
        #expect(retry["url"] as? String == url)
        #expect(retry["attempt"] as? Int == 1)
        #expect(retry["code"] as? String == "unacceptableStatus")
        #expect(retry["status"] as? Int == 503)
        #expect((0...0.5).contains(try #require(retry["delay_seconds"] as? Double)))
        #expect(ending.events(named: "finished").first?["attempts"] as? Int == 2)
    }

    @Test func aLostConnectionIsRetriedWithoutAStatus() async throws {
        server.enqueue([Reply.generated(byteCount: 1_000).resetting(afterBytes: 0), .status(200, body: "file")])
        let ending = try await fetch("--json", server.url("/a").absoluteString)
        #expect(ending.status == 0)
        let retry = try #require(ending.events(named: "retry").first)
        #expect(retry["code"] as? String == "connectionLost")
        #expect(retry["status"] == nil)
    }

    /// As in curl, `-m` limits the time of one attempt.
    @Test func aTooSlowAttemptIsFollowedByAnother() async throws {
        server.enqueue([Reply.status(200, body: "x").stalling(), .status(200, body: "file")])
        let ending = try await fetch("--json", "-m", "0.5", server.url("/a").absoluteString)
        #expect(ending.status == 0)
        #expect(ending.events(named: "retry").first?["code"] as? String == "timedOut")
        server.enqueue(Reply.status(200, body: "x").stalling())
        let last = try await fetch("-m", "0.5", "--retries", "0", server.url("/b").absoluteString)
        #expect(last.status == 1)
        #expect(last.errors.contains("/b: the attempt timeout has passed"), "\(last.errors)")
    }

    @Test func aProxyThatIsDownIsTriedAgain() async throws {
        let port = try LoopbackPort.refusing()
        let ending = try await fetch(
            "--retries=1", "-x", "http://127.0.0.1:\(port.port)", server.url("/a").absoluteString)
        #expect(ending.status == 1)
        #expect(ending.errors.hasSuffix(" (2 attempts)\n"), "\(ending.errors)")
    }

    @Test func retriesEndAtTheGivenNumber() async throws {
        server.respond { _ in .status(500) }
        let url = server.url("/a").absoluteString
        let ending = try await fetch("--retries=1", url)
        #expect(ending.status == 1)
        #expect(server.requestCount == 2)
        #expect(ending.errors.hasSuffix("convoy: \(url): 500 Internal Server Error (2 attempts)\n"))
        #expect(ending.errors.split(separator: "\n").count == 2)
        #expect(try directory.names() == [])
    }

    @Test func aMissingFileIsNotRequestedAgain() async throws {
        server.respond { _ in .status(404) }
        let ending = try await fetch("--json", server.url("/a").absoluteString)
        #expect(ending.status == 1)
        #expect(server.requestCount == 1)
        #expect(ending.steps == ["started", "failed", "summary"])
        #expect(ending.events(named: "failed").first?["attempts"] as? Int == 1)
    }

    @Test(arguments: [(0, 0.0), (1, 1.0)])
    func retryAfterComesBeforeTheBackOff(seconds: Int, minimum: Double) async throws {
        server.enqueue([.status(429, headerFields: [("Retry-After", "\(seconds)")]), .status(200, body: "file")])
        let ending = try await fetch("--json", server.url("/a").absoluteString)
        #expect(ending.status == 0)
        let retry = try #require(ending.events(named: "retry").first)
        #expect((minimum...minimum + 0.5).contains(try #require(retry["delay_seconds"] as? Double)))
        #expect(try #require(ending.events(named: "finished").first?["seconds"] as? Double) >= minimum)
    }

    @Test func aRetryThatCouldOnlyComeTooLateIsNotWaitedFor() async throws {
        server.respond { _ in .status(503, headerFields: [("Retry-After", "300")]) }
        let ending = try await fetch("--json", "--deadline=60", server.url("/a").absoluteString)
        #expect(ending.status == 1)
        #expect(ending.events(named: "failed").first?["status"] as? Int == 503)
        #expect(ending.events(named: "retry").isEmpty)
    }

    @Test func aDeadlineEndsARequestAndCountsFromItsTurn() async throws {
        server.route("/stalls") { _ in .generated(byteCount: 100).stalling(afterBodyBytes: 10) }
        server.route("/next") { _ in .status(200, body: "file") }
        let urls = (["/stalls"] + [String](repeating: "/next", count: 20)).map { server.url($0).absoluteString }
        // If all requests were queued at once, all deadlines would pass with the first one.
        let ending = try await ConvoyProcess(
            ["fetch", "--json", "--discard", "--jobs=1", "--deadline=2"] + urls
        ).ended()
        let failed = try #require(ending.events(named: "failed").first)
        #expect(failed["code"] as? String == "deadlineExceeded")
        #expect(failed["url"] as? String == urls[0])
        #expect(failed["attempts"] as? Int == 1)
        #expect(ending.status == 1)
        #expect(server.requestCount == urls.count)
    }
}
