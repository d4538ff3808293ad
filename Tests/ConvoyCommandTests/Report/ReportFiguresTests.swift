import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct ReportFiguresTests {
    private func record(
        _ milliseconds: Int, _ path: String, method: String = "GET", code: String? = nil
    ) throws -> RequestRecord {
        var line = EventLine(
            event: code == nil ? "finished" : "failed", index: 0, method: method, url: "http://a/\(path)", status: 200,
            code: code)
        (line.queuedAt, line.lifeSeconds) = (1_000, Double(milliseconds) / 1e3 + 0.5)
        line.timeline = [AttemptLine(start: 0.5, wait: Double(milliseconds) / 1e3, receive: 0)]
        return try #require(RequestRecord(line, run: 0))
    }

    @Test(
        arguments: [
            ([7], "50 % within 7 ms, 90 % within 7 ms, 99 % within 7 ms, the longest 7 ms"),
            ([30, 10, 20], "50 % within 20 ms, 90 % within 30 ms, 99 % within 30 ms, the longest 30 ms"),
            (Array((1...100).reversed()), "50 % within 50 ms, 90 % within 90 ms, 99 % within 99 ms, the longest 0.1 s"),
        ] as [([Int64], String)])
    func percentilesAreTheNearestRanks(milliseconds: [Int64], text: String) {
        #expect(ReportCommand.times(milliseconds.map { $0 * 1_000 }) == "times: " + text)
    }

    @Test func requestsOfTwoReportsAreMatched() throws {
        let before = [
            try record(10, "1"), try record(20, "1"), try record(10, "2", code: "timedOut"), try record(5, "3"),
            try record(5, "gone"),
        ]
        let after = [
            try record(15, "1"), try record(90, "1"), try record(9, "2"), try record(5, "3", code: "timedOut"),
            try record(5, "3", method: "PUT"),
        ]
        let comparison = ReportComparison(before, after)
        #expect(comparison.pairCount == 4)
        #expect((comparison.onlyBefore, comparison.onlyAfter) == (1, 1))
        #expect(comparison.broken.map(\.after) == [3])
        #expect(comparison.repaired.map(\.before) == [2])
        #expect(comparison.slowed.map(\.difference) == [70_000, 5_000])
        #expect(comparison.slowed.map(\.after) == [1, 0])
        #expect(
            comparison.text
                == "4 requests in both, 1 fails now, 1 fails no longer, 1 only in the first, 1 only in the second")
        #expect(ReportComparison(before, before).text == "5 requests in both")
    }
}

@Suite struct ShownCommandLineTests {
    private func shown(_ verb: Verb, _ arguments: [String]) -> String {
        (try? OptionScanner(verb).scan(arguments)).map { ShownCommandLine.text(verb, $0) } ?? ""
    }

    private func fetch(_ arguments: String...) -> String { shown(.fetch, arguments) }

    @Test func possibleSecretsAreOmittedFromTheTitle() {
        #expect(
            fetch("-u", "me:hidden", "-H", "X: hidden", "--data=hidden", "-b", "hidden", "-E", "c:hidden", "-j4", "a")
                == "convoy fetch --user … --header … --data … --cookie … --cert … --jobs 4 a")
        #expect(fetch("-x", "http://me:hidden@p:1", "http://me:hidden@h/?token=hidden&b=1").contains("hidden") == false)
        #expect(fetch("me:hidden@h/x") == "convoy fetch h/x")
        #expect(shown(.run, ["a.http", "--variable", "password=hidden"]) == "convoy run --variable … a.http")
    }

    @Test func argumentsAreQuotedAndLongListsAreShortened() {
        #expect(fetch("-P", "a b", "--quiet", "it's") == #"convoy fetch --directory-prefix 'a b' --quiet 'it'\''s'"#)
        #expect(fetch("a", "b", "c", "d", "e") == "convoy fetch a b c … and 2 more")
    }
}

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

    /// For a request with a body, libcurl 7 reports the first sent byte as the first received byte.
    ///
    /// The command records the time of the first received byte. This time replaces that of libcurl.
    @Test func theFirstByteOfAnAnswerToABodyIsTheNotedOne() throws {
        let queued = ContinuousClock.now
        let first = [try record(1, queued + .milliseconds(5))]
        let phases = try #require(line(of: first, EventSpan(queued: queued, nil, first)).timeline?.first)
        #expect(phases.start == 0.005 && abs(phases.seconds - 0.06) < 1e-9)
        #expect((phases.lookup, phases.connect, phases.tls) == (0.001, 0.002, 0.007))
        #expect((phases.wait, phases.receive) == (0.03, 0.02))
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

@Suite struct CriticalPathTests {
    /// A request that runs during `range`, in seconds.
    private func record(_ index: Int, _ range: ClosedRange<Double>, after: [Int] = [], run: Int = 0) -> RequestRecord? {
        var line = EventLine(event: "finished", index: index, attempts: 1)
        (line.queuedAt, line.lifeSeconds, line.after) = (1_000, range.upperBound, after)
        line.timeline = [
            AttemptLine(start: range.lowerBound, wait: range.upperBound - range.lowerBound, receive: 0)
        ]
        return RequestRecord(line, run: run)
    }

    @Test func theLongestChainIsFoundAndTheLastOfThoseWaitedForBlocks() {
        let records = [
            record(0, 0...1), record(1, 0...3), record(2, 3...4, after: [0, 1]), record(3, 1...1.5, after: [0]),
            record(4, 4...6, after: [2, 3]), record(5, 0...5),
        ].compactMap(\.self)
        let path = CriticalPath(records)
        #expect(path.blockers == [nil, nil, 1, 0, 2, nil])
        #expect(path.places == [1, 2, 4])
        #expect(path.microseconds == 6_000_000)
    }

    @Test func indicesBelongToARunAndUnknownOnesAreIgnored() {
        let records = [
            record(0, 0...9, run: 0), record(0, 0...1, run: 1), record(1, 1...2, after: [0, 77, -5], run: 1),
        ]
        let path = CriticalPath(records.compactMap(\.self))
        #expect(path.blockers == [nil, nil, 1])
    }

    @Test func requestsInACycleAreNotOnTheCriticalPath() {
        let records = [
            record(0, 0...9, after: [1]), record(1, 0...9, after: [0]), record(2, 0...9, after: [2]),
            record(3, 0...1), record(4, 1...2, after: [3, 3]),
        ].compactMap(\.self)
        let path = CriticalPath(records)
        #expect(path.places == [3, 4])
        #expect(path.microseconds == 2_000_000)
    }

    @Test func aChainOfAHundredThousandIsWalked() {
        let records = (0..<100_000).compactMap { index in
            record(index, Double(index)...Double(index + 1), after: index > 0 ? [index - 1] : [])
        }
        let path = CriticalPath(records)
        #expect(path.places.count == 100_000)
        #expect(path.microseconds == 100_000_000_000)
    }
}
