import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

private final class WordReport: FetchReport {
    let wantsSteps = true
    let wantsCancelled = true
    let words = Locked<[String]>([])
    private let callCount = Locked(0)

    var tickInterval: DispatchTimeInterval? { nil }
    func happened(_ step: FetchStep, to item: FetchItem) {
        switch step {
        case .started: note("started \(item.index)")
        case .redirected(let statusCode, let target): note("redirected \(statusCode ?? 0) \(target)")
        case .retrying(let attempt, let failure, _, _, _): note("retrying \(attempt) \(failure?.rawValue ?? "answer")")
        }
    }
    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) { note("tick \(running.map(\.item.index))") }
    func finished(_ outcome: FetchOutcome) { note("finished \(outcome.item.index) \(outcome.attemptCount)") }
    func isDefective(_ defect: FetchItems.Defect) { note("defect \(defect.reason)") }
    func ended(_ summary: FetchSummary) { note("ended \(summary.failedCount) \(summary.cancelledCount)") }

    /// Records an issue for two concurrent calls.
    private func note(_ word: String) {
        #expect(
            callCount.withLock {
                $0 += 1
                return $0
            } == 1)
        words.withLock { $0.append(word) }
        sched_yield()
        callCount.withLock { $0 -= 1 }
    }
}

@Suite struct FetchReporterTests {
    private typealias Outcome = Result<Response<Data>, RequestError>

    private let url = URL(filePath: "/")
    private let manager = RequestManager()
    private let request: PreparedRequest

    init() throws { request = try PreparedRequest(Request<Data>.get("http://a/").core, baseURL: nil) }

    private func item(_ index: Int) -> FetchItem { FetchItem(index: index, url: url, fileName: "\(index)") }
    private func operation(_ index: Int) -> AnyRequestOperation {
        manager.operation(Request<Data>.get("http://a/").tagged("\(index)"))
    }
    private func record(_ number: Int, _ next: AttemptRecord.Next = .outcome) -> AttemptRecord {
        AttemptRecord(
            number: number, request: request, started: .now, ended: .now, response: ResponseHead(statusCode: 503),
            next: next)
    }
    private func failure(_ attempts: [AttemptRecord]) -> Outcome {
        .failure(RequestError(.unacceptableStatus, "it failed").with(attempts: attempts))
    }

    /// The attempts before the end: a redirect, a retry and a failure.
    private var trail: [AttemptRecord] {
        [record(1, .redirect(to: url)), record(2, .retry(after: .seconds(1))), record(3)]
    }
    private let trailWords = ["started 0", "redirected 503 file:///", "retrying 1 answer", "finished 0 2", "ended 1 0"]

    private func emitTrail(_ reporter: FetchReporter, events: Range<Int>) {
        let steps = trail.flatMap { [.started(attempt: $0.number), .attemptEnded($0)] }.dropLast() as [RequestEvent]
        for event in steps[events] { reporter.requests.operation(operation(0), did: event) }
    }

    /// The manager's events may arrive before `finished`, after it, or some before and some after it.
    @Test(arguments: 0...5) func everyStepIsReportedOnceAndBeforeTheEnd(eventCountBefore: Int) {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        reporter.opened(item(0))
        emitTrail(reporter, events: 0..<eventCountBefore)
        reporter.finished(0, failure(trail), stop: nil)
        emitTrail(reporter, events: eventCountBefore..<5)
        #expect(reporter.ended(after: .zero, reason: nil) == .failure)
        #expect(report.words.withLock { $0 } == trailWords)
    }

    @Test func callsComeOneAtATimeFromManyThreads() {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        let count = 200
        DispatchQueue.concurrentPerform(iterations: count) { index in
            let operation = operation(index)
            reporter.opened(item(index))
            reporter.requests.operation(operation, did: .started(attempt: 1))
            reporter.isDefective(FetchItems.Defect(list: "list", line: 1, reason: "broken"))
            reporter.tick(RunProgress(), [operation])
            reporter.finished(index, failure([record(1)]), stop: nil)
        }
        _ = reporter.ended(after: .zero, reason: nil)
        let words = report.words.withLock { $0 }
        #expect(words.count == 4 * count + 1)
        #expect(words.last == "ended \(2 * count) 0")
        for index in 0..<count {
            let told = words.filter { $0 == "started \(index)" || $0 == "finished \(index) 1" }
            #expect(told == ["started \(index)", "finished \(index) 1"])
        }
    }
}

@Suite struct FetchReportTests {
    @Test func theSummaryCountsFilesFailuresAndCancellations() {
        var summary = FetchSummary()
        #expect(summary.status == .success)
        summary.succeededCount = 3
        summary.countFailure("timedOut")
        summary.bytes = 3_000_000
        summary.time = .seconds(2)
        #expect(summary.text == "3 files, 3.0 MB in 2.0 s (1.5 MB/s), 1 failed (1 timed out); exit status 1")
        #expect(summary.status == .failure)
        summary.reason = .interrupted
        summary.cancelledCount = 2
        summary.skippedCount = 4
        summary.resumedBytes = 1_000_000
        for code in ["unacceptableStatus", "badResponse", "unacceptableStatus"] { summary.countFailure(code) }
        let failures = "4 failed (2 unacceptable status, 1 bad response, 1 timed out)"
        #expect(
            summary.text
                == "interrupted: 3 files, 3.0 MB and 1.0 MB from an earlier run in 2.0 s (1.5 MB/s), 4 skipped, "
                + "\(failures), 2 cancelled; exit status 130")
        #expect(summary.status == .interrupted)
    }

    @Test func theSummarySaysHowAnotherRunContinues() {
        var summary = FetchSummary(succeededCount: 2)
        #expect(summary.lines.count == 1)
        summary.kept.add(34_000_000)
        #expect(summary.lines.last == "1 file is kept in part, 34.0 MB; the same command continues it")
        summary.kept.add(500_000)
        #expect(summary.lines.last == "2 files are kept in part, 34.5 MB; the same command continues them")
        (summary.reason, summary.replacesFiles) = (.interrupted, true)
        let skipping = "with --existing skip it skips 2 complete files"
        #expect(
            summary.lines.last
                == "2 files are kept in part, 34.5 MB; the same command continues them, and \(skipping)")
        summary.kept = KeptParts()
        #expect(summary.lines.last == "the same command starts over; \(skipping)")
        summary.succeededCount = 0
        #expect(summary.lines.count == 1)
    }

    private func item(_ name: String) throws -> FetchItem {
        FetchItem(index: 0, url: try #require(URL(string: "http://a/\(name)")), fileName: name)
    }

    @Test func theEndNamesTheDirectoryTheFailuresAndTheNextStep() throws {
        var summary = FetchSummary(directory: "out")
        let refused = RequestError(
            .unacceptableStatus, "the server answered 404", response: ResponseHead(statusCode: 404))
        for name in 1...6 {
            summary.count(
                FetchOutcome(item: try item("\(name)"), result: .failure(refused), attempts: []), isStopping: false)
        }
        // No file was saved or skipped, so only failures precede the summary. The summary does not repeat them.
        #expect(summary.lines == [summary.text])
        summary.succeededCount = 2
        summary.replacesFiles = true
        let failures = (1...5).map { "failed: http://a/\($0): 404 Not Found" }
        #expect(
            summary.lines == [summary.text] + failures + [
                "failed: 1 more", "the files are in out",
                "the same command tries them again; --existing skip skips complete files",
            ])
        #expect(FetchSummary(succeededCount: 1, directory: "out").lines.last == "the files are in out")
    }

    @Test(arguments: [(1, "2 of 4"), (3, "4 of 4"), (4, "5"), (130, "131")])
    func theLimitOfAttemptsIsNamedUntilItIsRenewed(attempt: Int, number: String) {
        let words = Words.retry(after: "no response", attempt: attempt, of: 4, in: .milliseconds(500))
        #expect(words == "no response; attempt \(number) in 0.5 s")
    }

    @Test func onlyBytesOfAnEarlierRunAreResumedBytes() {
        func count(_ transfers: [(received: Int64, resumed: Int64, statusCode: Int?)]) -> Int64 {
            var resumed = ResumedBytes()
            for transfer in transfers {
                var progress = TransferProgress()
                (progress.download.completedBytes, progress.resumedBytes) = (transfer.received, transfer.resumed)
                resumed.note(progress, statusCode: transfer.statusCode)
            }
            return resumed.count
        }
        #expect(count([]) == 0)
        #expect(count([(100, 0, 200)]) == 0)
        #expect(count([(100, 40, 206)]) == 40)
        // Bytes that an earlier attempt of the same run received do not count.
        #expect(count([(60, 0, 200), (100, 60, 206)]) == 0)
        #expect(count([(60, 40, 206), (100, 60, 206)]) == 40)
        // The body of an error response does not count as bytes of the file.
        #expect(count([(12, 0, 503), (0, 0, nil), (100, 40, 206)]) == 40)
        // The file has changed, so the old bytes do not count.
        #expect(count([(60, 40, 206), (100, 0, 200)]) == 0)
    }
}
