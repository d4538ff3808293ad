import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct FetchReportTests {
    @Test func theSummaryTellsWhatHappened() {
        var summary = FetchSummary()
        #expect(summary.status == .success)
        summary.succeededCount = 3
        summary.countFailure("timedOut")
        summary.bytes = 3_000_000
        summary.time = .seconds(2)
        #expect(summary.text == "3 files, 3.0 MB in 2.0 s (1.5 MB/s), 1 failed (1 timedOut); exit status 1")
        #expect(summary.status == .failure)
        summary.reason = .interrupted
        summary.cancelledCount = 2
        summary.skippedCount = 4
        summary.resumedBytes = 1_000_000
        for code in ["unacceptableStatus", "badResponse", "unacceptableStatus"] { summary.countFailure(code) }
        let failures = "4 failed (2 unacceptableStatus, 1 badResponse, 1 timedOut)"
        #expect(
            summary.text == "interrupted: 3 files, 3.0 MB and 1.0 MB from before in 2.0 s (1.5 MB/s), 4 skipped, "
                + "\(failures), 2 cancelled; exit status 130")
        #expect(summary.status == .interrupted)
    }

    @Test func theSummarySaysWhatAnotherRunWouldDo() {
        var summary = FetchSummary(succeededCount: 2)
        #expect(summary.lines.count == 1)
        summary.kept.add(34_000_000)
        #expect(summary.lines.last == "1 file is kept in part, 34.0 MB; the same command continues it")
        summary.kept.add(500_000)
        #expect(summary.lines.last == "2 files are kept in part, 34.5 MB; the same command continues them")
        (summary.reason, summary.replacesFiles) = (.interrupted, true)
        let skipping = "with --existing skip it leaves out 2 files that are complete"
        #expect(
            summary.lines.last
                == "2 files are kept in part, 34.5 MB; the same command continues them, and \(skipping)")
        summary.kept = KeptParts()
        #expect(summary.lines.last == "the same command begins again; \(skipping)")
        summary.succeededCount = 0
        #expect(summary.lines.count == 1)
    }

    @Test func onlyWhatAnEarlierRunHadLeftIsFromBefore() {
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
        // A retry continues what its own run has left.
        #expect(count([(60, 0, 200), (100, 60, 206)]) == 0)
        #expect(count([(60, 40, 206), (100, 60, 206)]) == 40)
        // The page that came with a refusal is no part of the file.
        #expect(count([(12, 0, 503), (0, 0, nil), (100, 40, 206)]) == 40)
        // The file has changed.
        #expect(count([(60, 40, 206), (100, 0, 200)]) == 0)
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

    @Test(arguments: [1, 10, 20, 40, 80, 200], [1, 2, 3, 5, 24])
    func linesFitEveryTerminal(width: Int, height: Int) throws {
        var screen = FetchScreen(started: .now)
        let size = Terminal.Size(width: width, height: height)
        let lines = screen.lines(RunProgress(), try transfers(12), size: size, now: .now)
        #expect(lines.count == min(13, max(1, height - 1)) || height == 3)
        #expect(lines.allSatisfy { $0.columnCount <= max(1, width - 1) })
    }

    @Test(arguments: [(24, 12, 0), (14, 12, 0), (13, 10, 2), (5, 2, 10)])
    func asManyFilesAsFitHaveALineAndTheOthersAreCounted(height: Int, shownCount: Int, hiddenCount: Int) throws {
        var screen = FetchScreen(started: .now)
        let size = Terminal.Size(width: 100, height: height)
        let lines = screen.lines(RunProgress(), try transfers(12), size: size, now: .now)
        #expect(lines.count { $0.contains("long-name") } == shownCount)
        let isCounted = lines.dropLast().last == "\u{2026} and \(hiddenCount) more"
        #expect(isCounted == (hiddenCount > 0))
    }

    @Test func whatWasThereBeforeIsShownAtOnceAndIsNoRate() throws {
        let start = ContinuousClock.now
        var screen = FetchScreen(started: start)
        let item = FetchItem(index: 0, url: try #require(URL(string: "http://a/")), fileName: "big.iso")
        var lines: [String] = []
        // The first picture comes before the answer.
        for (second, bytes) in [(0, 0), (1, 1_000_000), (2, 2_000_000)] as [(Int, Int64)] {
            let resumed: Int64 = second == 0 ? 0 : 7_000_000
            let transfer = RunningTransfer(
                item: item, receivedBytes: resumed + bytes, resumedBytes: resumed, expectedBytes: 10_000_000)
            let progress = RunProgress(receivedBytes: resumed + bytes, resumedBytes: resumed)
            lines = screen.lines(
                progress, [transfer], size: Terminal.Size(width: 120), now: start + .seconds(second))
            if second == 1 { #expect(lines.first?.contains(" 80 %") == true) }
        }
        #expect(lines.first?.hasSuffix(" 90 %     9.0 MB of 10.0 MB    1.0 MB/s    0:01") == true)
        #expect(lines.last?.contains("9.0 MB  1.0 MB/s") == true)
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

    @Test func whatWasDoneBeforeDoesNotShortenTheTimeLeft() {
        let start = ContinuousClock.now
        var screen = FetchScreen(started: start)
        // Of 60 files 15 were skipped; 15 took ten seconds.
        let progress = RunProgress(
            finishedCount: 30, skippedCount: 15, totalCount: 60, fractionCompleted: 0.5, fractionBefore: 0.25)
        let lines = screen.lines(progress, [], size: Terminal.Size(width: 100), now: start + .seconds(10))
        #expect(lines.first?.hasSuffix(" 50 %  15 skipped  0 B  0:20") == true)
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
