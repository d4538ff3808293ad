import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FetchReportTests {
    @Test func theSummaryTellsWhatHappened() {
        var summary = FetchSummary()
        #expect(summary.status == .success)
        summary.succeededCount = 3
        summary.failedCount = 1
        summary.bytes = 3_000_000
        summary.time = .seconds(2)
        #expect(summary.text == "3 files, 3.0 MB in 2.0 s (1.5 MB/s), 1 failed")
        #expect(summary.status == .failure)
        summary.reason = .interrupted
        summary.cancelledCount = 2
        #expect(summary.text == "interrupted: 3 files, 3.0 MB in 2.0 s (1.5 MB/s), 1 failed, 2 cancelled")
        #expect(summary.status == .interrupted)
    }

    @Test func cancellationsAreNoFailuresOnlyAfterAnInterruption() throws {
        let item = FetchItem(index: 0, url: try #require(URL(string: "http://a/")), fileName: "a")
        let outcome = FetchOutcome(
            item: item, result: .failure(RequestError(.cancelled, "it was cancelled")), attempts: [])
        var summary = FetchSummary()
        summary.count(outcome, isStopping: false)
        summary.count(outcome, isStopping: true)
        #expect(summary.failedCount == 1)
        #expect(summary.cancelledCount == 1)
    }

    @Test func eventsLeaveOutWhatDoesNotApply() {
        let event = FetchEvent(event: "progress", index: 3, bytes: 5, expectedBytes: 9)
        #expect(event.jsonLine == #"{"bytes":5,"event":"progress","expected_bytes":9,"index":3}"#)
    }
}

@Suite struct FetchScreenTests {
    private func transfers(_ count: Int) throws -> [RunningTransfer] {
        let url = try #require(URL(string: "http://a/"))
        return (0..<count).map { index in
            RunningTransfer(
                item: FetchItem(index: index, url: url, fileName: "\u{6F22}\u{5B57}-long-name-of-a-file-\(index).bin"),
                receivedBytes: Int64(index) * 1_000, expectedBytes: index % 2 == 0 ? 100_000 : nil)
        }
    }

    @Test(arguments: [1, 10, 20, 40, 80, 200], [1, 2, 5, 24])
    func linesFitEveryTerminal(width: Int, height: Int) throws {
        var screen = FetchScreen(started: .now)
        let size = Terminal.Size(width: width, height: height)
        let lines = screen.lines(RunProgress(), try transfers(12), size: size, now: .now)
        #expect(lines.count <= min(9, max(1, height - 1)))
        #expect(lines.allSatisfy { $0.columnCount <= max(1, width - 1) })
    }

    @Test func ratesAndTimesLeftAppearWithTime() throws {
        let start = ContinuousClock.now
        var screen = FetchScreen(started: start)
        let url = try #require(URL(string: "http://a/"))
        let item = FetchItem(index: 0, url: url, fileName: "big.iso")
        var lines: [String] = []
        for second in 0...3 {
            let transfer = RunningTransfer(
                item: item, receivedBytes: Int64(second) * 1_000_000, expectedBytes: 10_000_000)
            let now = start + .seconds(second)
            lines = screen.lines(RunProgress(), [transfer], size: Terminal.Size(width: 120), now: now)
        }
        #expect(lines.first?.hasPrefix("big.iso ") == true)
        #expect(lines.first?.contains("[=") == true)
        #expect(lines.first?.hasSuffix(" 30 %     3.0 MB of 10.0 MB    1.0 MB/s    0:07") == true)
        #expect(lines.last?.hasPrefix("0 files") == true)
    }

    @Test func theTotalCountsWhatHappened() {
        let start = ContinuousClock.now
        var screen = FetchScreen(started: start)
        let progress = RunProgress(
            finishedCount: 30, failedCount: 1, totalCount: 60, receivedBytes: 5_000_000, fractionCompleted: 0.5)
        let lines = screen.lines(progress, [], size: Terminal.Size(width: 100), now: start + .seconds(10))
        #expect(lines.count == 1)
        #expect(lines.first?.hasPrefix("30 of 60 files ") == true)
        #expect(lines.first?.hasSuffix(" 50 %  1 failed  5.0 MB  0:10") == true)
    }
}
