import Foundation
import Testing

/// Tests retries and deadlines.
///
/// The tests use the command's default delays, of at most half a second each.
@Suite final class RetryRunningTests: CommandTests {
    @Test func aFileArrivesAfterAReportedRetry() async throws {
        server.enqueue([.status(503, body: "busy"), .status(200, body: "file")])
        let ending = try await fetch(url("/a"))
        #expect(ending.errors.hasPrefix("convoy: \(url("/a")): 503 Service Unavailable; attempt 2 of 4 in "))
        #expect(ending.errors.split(separator: "\n").count == 1)
        #expect(ending.output.contains("saved a  4 B in "))
        #expect(try content("a") == "file")
        #expect(try directory.names() == ["a"])
    }

    @Test func jsonReportsARetryBetweenStartAndEnd() async throws {
        server.enqueue([.status(503), .status(200, body: "file")])
        let ending = try await fetch("--json", url("/a"), errors: "")
        #expect(ending.steps == ["started", "retry", "finished", "summary"])
        let retry = try #require(ending.events.dropFirst().first)
        #expect(Set(retry.keys) == ["event", "index", "url", "attempt", "code", "status", "delay_seconds"])
        let values = ending.values("retry", "index", "attempt", "status", "url", "code")
        #expect(values == "0 1 503 \(url("/a")) unacceptableStatus")
        #expect((0...0.5).contains(try #require(retry["delay_seconds"] as? Double)))
        #expect(ending.values("finished", "attempts") == "2")
    }

    @Test func aLostConnectionIsRetriedWithoutAStatus() async throws {
        server.enqueue([Reply.generated(byteCount: 1_000).resetting(afterBytes: 0), .status(200, body: "file")])
        #expect(try await fetch("--json", url("/a")).values("retry", "code", "status") == "connectionLost nil")
    }

    /// As in curl, `-m` limits the time of one attempt.
    @Test func aTooSlowAttemptIsFollowedByAnother() async throws {
        server.enqueue([Reply.status(200, body: "x").stalling(), .status(200, body: "file")])
        let ending = try await fetch("--json", "-m", "0.5", url("/a"))
        #expect(ending.events(named: "retry").first?["code"] as? String == "timedOut")
        server.enqueue(Reply.status(200, body: "x").stalling())
        try await fetch(
            "-m", "0.5", "--retries", "0", url("/b"), status: 1, errors: "/b: the attempt timeout has passed")
    }

    @Test func aProxyThatIsDownIsTriedAgain() async throws {
        let port = try LoopbackPort.refusing()
        let ending = try await fetch("--retries=1", "-x", "http://127.0.0.1:\(port.port)", url("/a"), status: 1)
        #expect(ending.errors.hasSuffix(" (2 attempts)\n"), "\(ending.errors)")
        for words in ["proxy", "127.0.0.1", "\(port.port)"] { #expect(ending.errors.contains(words)) }
    }

    @Test(arguments: [(0, 0.0), (1, 1.0)])
    func retryAfterComesBeforeTheBackOff(seconds: Int, minimum: Double) async throws {
        server.enqueue([.status(429, headerFields: [("Retry-After", "\(seconds)")]), .status(200, body: "file")])
        let ending = try await fetch("--json", url("/a"))
        let retry = try #require(ending.events(named: "retry").first)
        #expect((minimum...minimum + 0.5).contains(try #require(retry["delay_seconds"] as? Double)))
        #expect(try #require(ending.events(named: "finished").first?["seconds"] as? Double) >= minimum)
    }

    @Test func aRetryThatCouldOnlyComeTooLateIsNotWaitedFor() async throws {
        server.respond { _ in .status(503, headerFields: [("Retry-After", "300")]) }
        let ending = try await fetch("--json", "--deadline=60", url("/a"), status: 1)
        #expect(ending.events(named: "failed").first?["status"] as? Int == 503)
        #expect(ending.events(named: "retry").isEmpty)
    }

    @Test func aDeadlineEndsARequestAndCountsFromItsTurn() async throws {
        server.route("/stalls") { _ in .generated(byteCount: 100).stalling(afterBodyBytes: 10) }
        server.route("/next") { _ in .status(200, body: "file") }
        let urls = (["/stalls"] + [String](repeating: "/next", count: 20)).map(url)
        // If all requests were queued at once, all deadlines would pass with the first one.
        let ending = try await convoy("fetch", "--json", "--discard", "--jobs=1", "--deadline=2", urls, status: 1)
        #expect(ending.values("failed", "code", "url", "attempts") == "deadlineExceeded \(urls[0]) 1")
        #expect(server.requestCount == urls.count)
    }
}

/// Tests redirects and the fields that they must drop.
@Suite final class RedirectRunningTests: CommandTests {
    /// A server on another port, which is therefore another origin.
    private let other: TestServer

    override init() throws {
        other = try TestServer()
        try super.init()
        other.respond { _ in .status(200, body: "file") }
    }

    @Test func aRedirectIsFollowedAndTheFileNamedByTheGivenURL() async throws {
        let target = other.url("/elsewhere.bin").absoluteString
        server.respond { _ in .redirect(to: target) }
        #expect(try await fetch(url("/given.zip")).errors == "")
        #expect(try directory.names() == ["given.zip"])
        #expect(try content("given.zip") == "file")
    }

    @Test func jsonReportsRedirectsWhichAreNotCountedAsAttempts() async throws {
        let target = other.url("/b?c=d").absoluteString
        server.route("/a") { _ in .redirect(to: "/b", statusCode: 308) }
        server.route("/b") { _ in .redirect(to: target.replacing("http://", with: "http://user:secret@")) }
        other.enqueue(.status(503))
        let ending = try await fetch("--json", url("/a").replacing("http://", with: "http://user:secret@"))
        #expect(ending.steps == ["started", "redirect", "redirect", "retry", "finished", "summary"])
        let redirects = ending.events(named: "redirect")
        #expect(redirects.allSatisfy { Set($0.keys) == ["event", "index", "url", "status", "location"] })
        #expect(redirects.map { $0["url"] as? String } == [url("/a"), url("/a")])
        #expect(redirects.map { $0["location"] as? String } == [url("/b"), target])
        #expect(redirects.map { $0["status"] as? Int } == [308, 302])
        #expect(ending.values("retry", "attempt") + ending.values("finished", "attempts") == "12")
        #expect(!ending.output.contains("secret"))
    }

    @Test func keysStayWithTheOriginThatTheyWereGivenFor() async throws {
        let target = other.url("/b").absoluteString
        server.route("/a") { _ in .redirect(to: "/same") }
        server.route("/same") { _ in .redirect(to: target) }
        let secrets = ["Authorization", "Cookie", "X-Api-Key", "Private-Token"]
        let others = ["Accept", "User-Agent"]
        let fields = (secrets + others).flatMap { ["--header", "\($0): given"] } + ["--header=private-token: again"]
        try await fetch(fields, url("/a"))
        for _ in 0..<2 {
            let request = try await server.takeRequest()
            #expect((secrets.dropLast() + others).allSatisfy { request.value(of: $0) == "given" })
            #expect(request.values(of: "Private-Token").joined(separator: ", ") == "given, again")
        }
        let request = try await other.takeRequest()
        #expect(secrets.allSatisfy { request.value(of: $0) == nil })
        #expect(others.allSatisfy { request.value(of: $0) == "given" })
    }
}
