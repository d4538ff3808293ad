// The report for people.
import Convoy
import Foundation

/// Live progress on a terminal, a line for each file elsewhere, a summary; errors on standard error.
final class LineReport: FetchReport {
    private let console: Console
    private let isQuiet: Bool
    private let discards: Bool
    private let screen: Locked<FetchScreen>

    init(console: Console, isQuiet: Bool, discards: Bool) {
        self.console = console
        self.isQuiet = isQuiet
        self.discards = discards
        screen = Locked(FetchScreen(started: .now))
    }

    var tickInterval: DispatchTimeInterval? { console.isLive ? .milliseconds(100) : nil }
    var wantsSteps: Bool { !isQuiet }
    var wantsCancelled: Bool { false }

    func happened(_ step: FetchStep, to item: FetchItem) {
        guard case .retrying(_, let failure, let statusCode, let delay) = step else { return }
        let cause = failure?.rawValue ?? statusCode.map { "the server answered \($0)" } ?? "no answer"
        console.printError("convoy: retrying in \(Figures.time(delay)): \(item.url.withoutCredentials): \(cause)")
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let size = console.size
        console.draw(screen.withLock { $0.lines(progress, running, size: size, now: .now) })
    }

    func finished(_ outcome: FetchOutcome) {
        switch outcome.result {
        case .success(let success):
            // On a terminal the live lines tell it.
            guard !isQuiet, !(console.isLive && console.isOutputTerminal) else { return }
            console.printLine(line(outcome, success))
        case .failure(let error):
            var notes = error.response == nil ? [error.code.rawValue] : []
            if outcome.attemptCount > 1 { notes.append("\(outcome.attemptCount) attempts") }
            let message = outcome.message ?? ""
            let cause = notes.isEmpty ? message : "\(message) (\(notes.joined(separator: ", ")))"
            console.printError("convoy: \(outcome.item.url.withoutCredentials): \(cause)")
        }
    }

    func isDefective(_ defect: FetchItems.Defect) {
        let place = defect.line.map { "line \($0) of \(defect.list)" } ?? defect.list
        console.printError("convoy: \(place): \(defect.reason)")
    }

    func ended(_ summary: FetchSummary) {
        console.endLive()
        if !isQuiet { for line in summary.lines { console.printLine(line) } }
    }

    private func line(_ outcome: FetchOutcome, _ success: FetchOutcome.Success) -> String {
        let name = success.fileName ?? outcome.item.fileName
        guard !success.isSkipped else {
            let isThere = outcome.attempts.isEmpty ? "it is there" : "it has not changed"
            return "skipped \(name)  \(isThere)\(outcome.item.digest == nil ? "" : " and has its digest")"
        }
        let what = discards ? "received \(outcome.item.url.withoutCredentials)" : "saved \(name)"
        let resumed = success.resumedBytes > 0 ? ", \(Figures.bytes(success.resumedBytes)) of it from before" : ""
        return "\(what)  \(Figures.bytes(success.bytes)) in \(Figures.time(success.time))\(resumed)"
    }
}
