// The report for programs: `--json`.
import Convoy
import Foundation

/// Prints one JSON object on each line of standard output.
///
/// The help of the command lists all objects.
final class JSONReport: FetchReport {
    private let console: Console
    private let directory: String?
    /// The received bytes of each running file at the last tick.
    ///
    /// Only a file whose number has changed is reported.
    private let receivedBytes = Locked<[Int: Int64]>([:])

    /// - Parameter directory: the output directory, which precedes file names; nil if no files are written.
    init(console: Console, directory: String?) { (self.console, self.directory) = (console, directory) }

    var tickInterval: DispatchTimeInterval? { .milliseconds(500) }
    var wantsSteps: Bool { true }
    var wantsCancelled: Bool { true }

    func happened(_ step: FetchStep, to item: FetchItem) {
        tell(EventLine(step, index: item.index, url: item.url.redactedString))
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let earlier = receivedBytes.withLock { bytes in
            defer { bytes = running.reduce(into: [:]) { $0[$1.item.index] = $1.receivedBytes } }
            return bytes
        }
        for transfer in running where transfer.receivedBytes != earlier[transfer.item.index] ?? 0 {
            tell(
                EventLine(
                    event: "progress", index: transfer.item.index, bytes: transfer.receivedBytes,
                    resumedBytes: transfer.resumedBytes.positive, expectedBytes: transfer.expectedBytes))
        }
    }

    func finished(_ outcome: FetchOutcome) { tell(EventLine(outcome, directory: directory)) }

    func isDefective(_ defect: FetchItems.Defect) { tell(EventLine(defect)) }

    func ended(_ summary: FetchSummary) {
        tell(
            EventLine(
                event: "summary", bytes: summary.bytes, resumedBytes: summary.resumedBytes,
                keptBytes: summary.kept.bytes, seconds: summary.time.roundedSeconds, succeeded: summary.succeededCount,
                skipped: summary.skippedCount, failed: summary.failedCount, failures: summary.failures,
                cancelled: summary.cancelledCount, keptFiles: summary.kept.count, exitStatus: summary.status.code))
    }

    private func tell(_ event: EventLine) { console.printLine(event.jsonLine) }
}
