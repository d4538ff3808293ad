import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct EventLineTests {
    private let url = "http://a/x?sig=s3cret&b=1"

    private func record(
        _ number: Int, _ start: ContinuousClock.Instant, _ next: AttemptRecord.Next = .outcome, body: Bool = false
    ) throws -> AttemptRecord {
        var metrics = TransferMetrics()
        (metrics.nameLookup, metrics.connect) = (.milliseconds(1), .milliseconds(3))
        (metrics.secureConnect, metrics.firstByte, metrics.total) = (
            .milliseconds(10), body ? .milliseconds(11) : .milliseconds(40), .milliseconds(50)
        )
        var request = Request<Data>.post(try #require(URL(string: url)))
        if body { request = request.body(Data("x".utf8), contentType: nil) }
        return AttemptRecord(
            number: number, request: try PreparedRequest(request.core, baseURL: nil), started: start,
            ended: start + .milliseconds(60), response: ResponseHead(statusCode: 200), next: next, metrics: metrics)
    }

    private func line(of attempts: [AttemptRecord], _ span: EventSpan) throws -> EventLine {
        let item = FetchItem(index: 4, url: try #require(URL(string: url)), fileName: "x")
        let success = FetchOutcome.Success(
            head: ResponseHead(statusCode: 200), bytes: 90, resumedBytes: 30, time: .milliseconds(60))
        return EventLine(
            FetchOutcome(item: item, result: .success(success), attempts: attempts, span: span), directory: nil)
    }

    @Test func aLineReadAgainIsTheSameAndSoIsItsRecord() throws {
        let queued = ContinuousClock.now
        let target = try #require(URL(string: "http://me:pass@b/y?token=s3cret"))
        let attempts = [
            try record(1, queued + .milliseconds(5), .redirect(to: target)),
            try record(2, queued + .milliseconds(70), .retry(after: .seconds(2))),
            try record(3, queued + .milliseconds(2_140)),
        ]
        var line = try line(of: attempts, EventSpan(queued: queued, nil, attempts))
        (line.name, line.after, line.message) = ("a\u{2028}</script>\"", [1, 2], "see http://me:pass@h/?key=s3cret")
        let again = try #require(EventLine(Array(line.jsonLine.utf8)))
        #expect(again == line)
        #expect(!line.jsonLine.contains("\n"))
        let record = try #require(RequestRecord(line, run: 1))
        #expect(RequestRecord(again, run: 1) == record)
        #expect(record.outcome == .succeeded)
        #expect((record.bytes, record.resumedBytes, record.attemptCount) == (60, 30, 2))
        #expect((record.retryCount, record.redirectCount) == (1, 1))
        #expect(record.life == 2_200_000)
        let shown = [record.url, record.message ?? "", record.timeline[0].location ?? ""].joined()
        #expect(!shown.contains("s3cret") && !shown.contains("pass"))
        #expect(record.url == "http://a/x?sig=%3Credacted%3E&b=1")
    }

    @Test func thePhasesFollowEachOtherAndLastAsLongAsTheAttempt() throws {
        let queued = ContinuousClock.now
        let attempts = [try record(1, queued + .milliseconds(5))]
        let timeline = try #require(line(of: attempts, EventSpan(queued: queued, nil, attempts)).timeline?.first)
        #expect(timeline.start == 0.005)
        #expect((timeline.lookup, timeline.connect, timeline.tls) == (0.001, 0.002, 0.007))
        #expect((timeline.wait, timeline.receive) == (0.03, 0.02))
        #expect(abs(timeline.seconds - 0.06) < 1e-9)
    }

    /// For a request with a body, libcurl 7 reports the first sent byte as the first received byte.
    ///
    /// The command records the time of the first received byte. This time replaces that of libcurl.
    @Test func theFirstByteOfAnAnswerToABodyIsTheNotedOne() throws {
        let queued = ContinuousClock.now
        let attempts = [try record(1, queued, body: true)]
        var span = EventSpan(queued: queued, nil, attempts)
        span.firstByte = queued + .milliseconds(45)
        let timeline = try #require(line(of: attempts, span).timeline?.first)
        #expect((timeline.wait, timeline.receive) == (0.035, 0.015))
    }

    @Test(arguments: [
        ("finished", nil, RequestRecord.Outcome.succeeded), ("skipped", nil, .skipped), ("started", nil, .unfinished),
        ("failed", "timedOut", .failed), ("failed", nil, .failed), ("failed", "cancelled", .cancelled),
        ("failed", "dependencyFailed", .unsent),
    ])
    func outcomesFollowFromEventAndCode(event: String, code: String?, outcome: RequestRecord.Outcome) {
        #expect(RequestRecord(EventLine(event: event, code: code), run: 0)?.outcome == outcome)
    }

    @Test func onlyStartsAndEndsHaveRecords() {
        for event in ["summary", "warning", "progress", "", "new"] {
            #expect(RequestRecord(EventLine(event: event), run: 0) == nil)
        }
    }

    /// Another program may have written the lines, so their numbers may be impossible.
    @Test func impossibleNumbersAreIgnored() throws {
        var line = EventLine(event: "finished", bytes: .min, resumedBytes: .max, attempts: -3)
        (line.queuedAt, line.lifeSeconds) = (-1, 1e300)
        line.timeline = [AttemptLine(start: -1e300, lookup: 1e300, wait: -1, receive: 1e18)]
        let record = try #require(RequestRecord(line, run: 0))
        #expect((record.bytes, record.attemptCount, record.queued, record.life) == (0, 0, nil, 0))
        var sums = ReportSums()
        for _ in 0..<3 { sums.count(record) }
        #expect(sums.requests == 3)
        var report = Report(title: "t")
        for index in 0..<3 {
            line.index = index
            (line.queuedAt, line.lifeSeconds) = (99e9, 99e9)
            report.add(line)
        }
        #expect(ReportPage.text(report.closed()).contains("</html>"))
    }
}
