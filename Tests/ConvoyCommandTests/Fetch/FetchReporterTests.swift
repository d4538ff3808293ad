import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

/// Records the reported events as words.
private final class WordReport: FetchReport {
    let wantsSteps: Bool
    let wantsCancelled: Bool
    let words = Locked<[String]>([])
    let ticks = Locked<[(progress: RunProgress, running: [RunningTransfer])]>([])
    private let callCount = Locked(0)

    init(wantsSteps: Bool = true, wantsCancelled: Bool = true) {
        (self.wantsSteps, self.wantsCancelled) = (wantsSteps, wantsCancelled)
    }

    var tickInterval: DispatchTimeInterval? { nil }
    func happened(_ step: FetchStep, to item: FetchItem) {
        switch step {
        case .started: note("started \(item.index)")
        case .redirected(let statusCode, let target): note("redirected \(statusCode ?? 0) \(target)")
        case .retrying(let attempt, let failure, _, _, _): note("retrying \(attempt) \(failure?.rawValue ?? "answer")")
        }
    }
    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        ticks.withLock { $0.append((progress, running)) }
        note("tick \(running.map(\.item.index))")
    }
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
    private func failure(_ attempts: [AttemptRecord], _ code: RequestError.Code = .unacceptableStatus) -> Outcome {
        .failure(RequestError(code, "it failed").with(attempts: attempts))
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

    @Test func aRequestThatWasNeverSentHasOnlyAnEnd() {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        reporter.opened(item(0))
        reporter.finished(0, failure([], .invalidRequest), stop: nil)
        #expect(report.words.withLock { $0 } == ["finished 0 0"])
    }

    @Test func unwantedStepsAreNotReported() {
        let report = WordReport(wantsSteps: false)
        let reporter = FetchReporter(report: report)
        reporter.opened(item(0))
        reporter.finished(0, failure(trail), stop: nil)
        #expect(report.words.withLock { $0 } == ["finished 0 2"])
    }

    @Test func runningRequestsAreShownWithTheReasonOfTheirWait() throws {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        let operations = (0..<4).map(operation)
        for index in 0..<4 { reporter.opened(item(index)) }
        // The first request waits for a retry and the second has started again. The third has ended and the fourth
        // has not begun.
        let refused = record(1, .retry(after: .seconds(1)))
        for index in 0..<2 {
            reporter.requests.operation(operations[index], did: .started(attempt: 1))
            reporter.requests.operation(operations[index], did: .attemptEnded(refused))
        }
        reporter.requests.operation(operations[1], did: .started(attempt: 2))
        reporter.requests.operation(operations[2], did: .started(attempt: 1))
        reporter.finished(2, failure([record(1)]), stop: nil)
        reporter.tick(RunProgress(), operations)
        let running = try #require(report.ticks.withLock { $0.last }).running
        #expect(running.map(\.item.index) == [0, 1])
        let due = refused.ended + .seconds(1)
        #expect(
            running.map(\.wait) == [.retry(attempt: 1, cause: "503 Service Unavailable", due: due), .answer])
    }

    /// Checks the progress after each event of a request that first gets an error response and then a 200.
    @Test func theBodyOfAFailedResponseIsNotCountedAsProgress() throws {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        let operation = operation(0)
        reporter.opened(item(0))
        var page = TransferProgress()
        (page.download.completedBytes, page.download.totalBytes) = (1_234, 1_234)
        let refused = AttemptRecord(
            number: 1, request: request, started: .now, ended: .now, response: ResponseHead(statusCode: 503),
            next: .retry(after: .zero), transfer: page)
        let events: [RequestEvent] = [
            .started(attempt: 1), .response(ResponseHead(statusCode: 503)), .attemptEnded(refused),
            .started(attempt: 2),
        ]
        operation.state.withLock { [page] in $0.progress = page }
        for event in events {
            reporter.requests.operation(operation, did: event)
            reporter.tick(RunProgress(totalCount: 1), [operation])
            let tick = try #require(report.ticks.withLock { $0.last })
            #expect(tick.progress.receivedBytes == 0)
            #expect(tick.running.map(\.receivedBytes) == [0])
            #expect(tick.running.map(\.expectedBytes) == [nil])
        }
        reporter.requests.operation(operation, did: .response(ResponseHead(statusCode: 200)))
        reporter.tick(RunProgress(totalCount: 1), [operation])
        #expect(report.ticks.withLock { $0.last?.progress.receivedBytes } == 1_234)
    }

    @Test func aFailureTookTheTimeOfItsAttempts() {
        let start = ContinuousClock.now
        let attempts = (0..<3).map { number in
            AttemptRecord(
                number: number + 1, request: request, started: start + .seconds(number * 2),
                ended: start + .seconds(number * 2 + 1))
        }
        #expect(failure(attempts).executed() == .seconds(5))
        #expect(failure([]).executed() == .zero)
    }

    @Test func ticksReportResumedBytes() throws {
        let report = WordReport()
        let reporter = FetchReporter(report: report)
        let operations = (0..<2).map(operation)
        for index in 0..<2 { reporter.opened(item(index)) }
        var transfer = TransferProgress()
        (transfer.download.completedBytes, transfer.resumedBytes, transfer.download.totalBytes) = (60, 40, 100)
        // The first request resumed at 40 bytes and lost its connection at 60. Its retry resumes at 60.
        let lost = AttemptRecord(
            number: 1, request: request, started: .now, ended: .now, response: ResponseHead(statusCode: 206),
            next: .retry(after: .zero), transfer: transfer)
        reporter.requests.operation(operations[0], did: .started(attempt: 1))
        reporter.requests.operation(operations[0], did: .attemptEnded(lost))
        reporter.requests.operation(operations[0], did: .started(attempt: 2))
        (transfer.download.completedBytes, transfer.resumedBytes) = (80, 60)
        operations[0].state.withLock { [transfer] in $0.progress = transfer }
        // The second request resumes at 50.
        reporter.requests.operation(operations[1], did: .started(attempt: 1))
        for operation in operations {
            reporter.requests.operation(operation, did: .response(ResponseHead(statusCode: 206)))
        }
        (transfer.download.completedBytes, transfer.resumedBytes) = (70, 50)
        operations[1].state.withLock { [transfer] in $0.progress = transfer }
        reporter.tick(RunProgress(totalCount: 4), operations)
        let tick = try #require(report.ticks.withLock { $0.first })
        #expect(tick.running.map(\.receivedBytes) == [80, 70])
        #expect(tick.running.map(\.resumedBytes) == [40, 50])
        #expect(tick.progress.resumedBytes == 90)
        #expect(tick.progress.receivedBytes == 150)
    }

    @Test(arguments: [true, false]) func cancellationsAreCountedAndReportedIfWanted(isWanted: Bool) {
        let report = WordReport(wantsCancelled: isWanted)
        let reporter = FetchReporter(report: report)
        for index in 0..<2 { reporter.opened(item(index)) }
        reporter.finished(0, failure([], .cancelled), stop: .interrupted)
        // A failure that is not a cancellation is always reported.
        reporter.finished(1, failure([], .connectionLost), stop: .interrupted)
        #expect(reporter.ended(after: .zero, reason: .interrupted) == .interrupted)
        let words = (isWanted ? ["finished 0 0"] : []) + ["finished 1 0", "ended 1 1"]
        #expect(report.words.withLock { $0 } == words)
    }

    @Test func nothingIsReportedAfterStandardOutputWasClosed() {
        let report = WordReport(wantsCancelled: true)
        let reporter = FetchReporter(report: report)
        for index in 0..<2 { reporter.opened(item(index)) }
        reporter.finished(0, failure([], .destinationUnwritable), stop: .outputClosed)
        reporter.finished(1, failure([], .cancelled), stop: .outputClosed)
        #expect(reporter.ended(after: .zero, reason: .outputClosed) == .outputClosed)
        #expect(report.words.withLock { $0 } == ["ended 1 1"])
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
