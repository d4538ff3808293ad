import Convoy
import Foundation

final class LineReport: FetchReport {
    private let options: FetchOptions
    private let console: Console
    private let display: LiveDisplay

    init(_ options: FetchOptions, console: Console) {
        (self.options, self.console) = (options, console)
        display = LiveDisplay(options, console: console, noun: "files")
    }

    private var isQuiet: Bool { options.isQuiet || options.ownsOutput }
    var tickInterval: DispatchTimeInterval? { console.isLive ? .milliseconds(100) : nil }
    var wantsSteps: Bool { !isQuiet }
    var wantsCancelled: Bool { false }

    func happened(_ step: FetchStep, to item: FetchItem) {
        // A retry is printed only if the live region does not show it: without a region, and with segments.
        guard case .retrying(let attempt, _, _, let cause, let delay) = step, !console.isLive || options.usesSegments
        else { return }
        let words = Words.retry(after: cause, attempt: attempt, of: options.retries + 1, in: delay)
        console.printError("convoy: \(item.url.redactedString): \(words)")
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) { display.draw(progress, running) }

    func finished(_ outcome: FetchOutcome) {
        switch outcome.result {
        case .success(let success):
            if !isQuiet { display.say(line(outcome, success)) }
        case .failure:
            let attempts = outcome.attemptCount > 1 ? " (\(outcome.attemptCount) attempts)" : ""
            let cause = outcome.cause ?? ""
            console.printError("convoy: \(outcome.item.url.redactedString): \(cause)\(attempts)", isFailure: true)
        }
    }

    func isDefective(_ defect: FetchItems.Defect) {
        console.printError("convoy: \(defect.place): \(defect.reason)")
    }

    func ended(_ summary: FetchSummary) {
        display.end()
        // If standard output is a pipe, its reader gets only the lines of files.
        guard !isQuiet, !console.isOutputClosed else { return }
        for line in summary.lines {
            if console.isOutputPipe { console.printError(line) } else { console.printLine(line, wraps: true) }
        }
    }

    private func line(_ outcome: FetchOutcome, _ success: FetchOutcome.Success) -> String {
        if let reason = outcome.skipReason { return "skipped \(outcome.fileName)  \(reason)" }
        let what = options.discards ? "received \(outcome.item.url.redactedString)" : "saved \(outcome.fileName)"
        let resumed =
            success.resumedBytes > 0 ? ", \(Figures.bytes(success.resumedBytes)) of them from an earlier run" : ""
        let cache = outcome.attempts.cacheOutcome?.words ?? ""
        let link = success.replacesLink ? ", replacing a link" : ""
        return "\(what)  \(Figures.bytes(success.bytes)) in \(Figures.time(success.time))\(resumed)\(cache)\(link)"
    }
}

// Safe to use from any thread. Drawing happens outside of the locks.
final class LiveDisplay: Sendable {
    private let console: Console
    private let screen: Locked<FetchScreen>
    // The next drawing prints all of them above the region in one write.
    private let lines = Locked<[String]>([])

    init(_ options: FetchOptions, console: Console, noun: String) {
        self.console = console
        screen = Locked(FetchScreen(maxAttempts: options.retries + 1, noun: noun))
    }

    // If the live region is on the same terminal, the next drawing prints the line.
    func say(_ line: String) {
        guard console.isLive, console.isOutputTerminal else { return console.printLine(line, wraps: true) }
        lines.withLock { $0.append(line) }
    }

    func draw(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let size = console.size
        let region = screen.withLock { $0.lines(progress, running, size: size, now: .now) }
        console.draw(region, above: takeLines())
    }

    func end() {
        let lines = takeLines()
        if !lines.isEmpty { console.draw([], above: lines) }
        console.endLive()
    }

    private func takeLines() -> [String] {
        lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}
