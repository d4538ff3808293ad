import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct RunTotalsTests {
    private func transfer(_ received: Int64, of expected: Int64?, _ wait: RunningTransfer.Wait? = nil)
        -> RunningTransfer
    {
        RunningTransfer(
            item: FetchItem(index: 0, url: URL(filePath: "/"), fileName: "a"), receivedBytes: received,
            expectedBytes: expected, wait: wait)
    }

    @Test func knownSizesAreCountedAsTheyAre() {
        let totals = RunTotals(
            RunProgress(totalCount: 2, receivedBytes: 300), [transfer(100, of: 400), transfer(200, of: 600)])
        #expect(totals.remainingBytes == 700)
        #expect(!totals.isEstimate)
        #expect(totals.fraction == 0.3)
    }

    @Test func unknownSizesAreTheMeanOfTheKnown() {
        // A file of 300 bytes is complete and one of 500 runs. Another runs without a size, and one has not begun.
        // The mean is 400.
        let progress = RunProgress(
            finishedCount: 1, totalCount: 4, receivedBytes: 700, savedCount: 1, savedBytes: 300)
        let totals = RunTotals(progress, [transfer(250, of: 500), transfer(150, of: nil)])
        #expect(totals.remainingBytes.map { abs($0 - 900) < 1 } == true)
        #expect(totals.isEstimate)
        // A file of unknown size that has received more than the mean adds no remaining bytes.
        #expect(RunTotals(progress, [transfer(500, of: 500), transfer(900, of: nil)]).remainingBytes == 400)
    }

    @Test func filesThatWaitForARetryDoNotCountAsProgress() {
        let waiting = (0..<4).map { _ in transfer(0, of: nil, .answer) }
        let totals = RunTotals(RunProgress(totalCount: 4), waiting)
        #expect(totals.fraction == 0)
        #expect(totals.remainingBytes == nil)
    }

    @Test func failedAndSkippedFilesDoNotCountAsBytes() {
        let progress = RunProgress(
            finishedCount: 3, failedCount: 1, skippedCount: 1, totalCount: 4, receivedBytes: 200, savedCount: 1,
            savedBytes: 100)
        #expect(RunTotals(progress, [transfer(100, of: 300)]).remainingBytes == 200)
        #expect(RunTotals(progress, [transfer(100, of: 300)]).fraction == 0.5)
    }

    @Test func theWholeIsDoneOnlyWhenAllHaveFinished() {
        #expect(RunTotals(RunProgress(totalCount: 1, receivedBytes: 9), [transfer(9, of: 9)]).fraction == 0.99)
        #expect(RunTotals(RunProgress(finishedCount: 1, totalCount: 1), []).fraction == 1)
        #expect(RunTotals(RunProgress(finishedCount: 1), []).fraction == nil)
    }

    @Test func announcedSizesOverflowNothing() {
        let huge = (0..<4).map { _ in transfer(1, of: .max) } + [transfer(1, of: nil), transfer(1, of: -5)]
        #expect((RunTotals(RunProgress(totalCount: 9, receivedBytes: 6), huge).fraction ?? 1) < 0.01)
    }

    @Test func theTimeLeftIsNeverLessThanTheSlowestFile() {
        let start = ContinuousClock.now
        var meter = ArrivalMeter()
        for second in 0...3 { meter.note(Int64(second) * 100, at: start + .seconds(second)) }
        let totals = RunTotals(RunProgress(totalCount: 1, receivedBytes: 300), [transfer(300, of: 1_300)])
        let now = start + .seconds(3)
        #expect(totals.secondsLeft(meter, slowest: 4, at: now) == 10)
        #expect(totals.secondsLeft(meter, slowest: 25, at: now) == 25)
        #expect(totals.secondsLeft(ArrivalMeter(), slowest: 25, at: now) == nil)
    }
}
