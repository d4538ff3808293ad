// The live region of a run, and the lines above it.
import Convoy
import Foundation

/// Draws the progress of a run, and prints lines on standard output.
///
/// ## Concurrency
/// Safe to use from any thread. Drawing happens outside of the locks.
final class LiveDisplay: Sendable {
    private let console: Console
    private let screen: Locked<FetchScreen>
    /// The lines to print that arrived since the last drawing.
    ///
    /// The next drawing prints all of them above the region in one write.
    private let lines = Locked<[String]>([])

    /// - Parameter noun: the noun for the counted items.
    init(_ options: FetchOptions, console: Console, noun: String) {
        self.console = console
        screen = Locked(FetchScreen(maxAttempts: options.retries + 1, noun: noun))
    }

    /// Prints a line.
    ///
    /// If the live region is on the same terminal, the next drawing prints the line.
    func say(_ line: String) {
        guard console.isLive, console.isOutputTerminal else { return console.printLine(line, wraps: true) }
        lines.withLock { $0.append(line) }
    }

    func draw(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let size = console.size
        let region = screen.withLock { $0.lines(progress, running, size: size, now: .now) }
        console.draw(region, above: takeLines())
    }

    /// Prints the stored lines, and removes the live region.
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
