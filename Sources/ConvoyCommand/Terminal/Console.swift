import Convoy
import Foundation

// Control characters in lines are replaced, so a server's text cannot move the cursor.
// Safe to use from any thread. A lock orders the output; it is held during writes, so a slow reader blocks every
// writer. No handler is called under the lock.
final class Console: Sendable {
    private struct State {
        var region = LiveRegion()
        var outputProblem: Int32 = 0
        var isOutputClosed: Bool { [EPIPE, EBADF].contains(outputProblem) }
        var onClosed: (@Sendable () -> Void)?
    }

    let isLive: Bool
    let isOutputTerminal: Bool
    let isOutputPipe: Bool
    let isJSON: Bool
    private let hasColour: Bool
    private let state = Locked(State())

    init(allowsLive: Bool, isJSON: Bool = false) {
        self.isJSON = isJSON
        isOutputPipe = Terminal.output.isPipe
        // The reader of a pipe, for example tee, may write to this terminal in the middle of a region.
        isLive = allowsLive && Terminal.errors.canRedraw && !isOutputPipe
        isOutputTerminal = Terminal.output.isTerminal
        hasColour = Terminal.errors.hasColour
    }

    var isOutputClosed: Bool { state.withLock { $0.isOutputClosed } }

    func noteOutputProblem(_ code: Int32) { state.withLock { if $0.outputProblem == 0 { $0.outputProblem = code } } }

    // After a failed write to standard output, a success becomes a failure.
    func status(after status: ExitStatus) -> ExitStatus {
        state.withLock { state in
            if state.isOutputClosed { return .outputClosed }
            return state.outputProblem != 0 && status == .success ? .failure : status
        }
    }

    var size: Terminal.Size { Terminal.errors.size }

    func onOutputClosed(_ handler: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if !state.isOutputClosed { state.onClosed = handler }
            return state.isOutputClosed
        }
        if isLate { handler() }
    }

    // After a failure nothing more is written to standard output, because it could begin in the middle of a line.
    func printLine(_ line: String, wraps: Bool = false, isContent: Bool = false) {
        var text = isContent && !isOutputTerminal ? line : line.visible(keepsNewlines: true)
        if wraps, isOutputTerminal { text = text.wrapped(toColumns: Terminal.output.size.width - 1) }
        let onClosed = state.withLock { [text] state -> (@Sendable () -> Void)? in
            guard state.outputProblem == 0 else { return nil }
            forgetRegionInBackground(&state)
            let lines = isOutputTerminal ? state.region.lines : []
            if !lines.isEmpty { writeToErrors(state.region.erase(columns: size.width)) }
            let problem = StandardStreams.write(text + "\n", to: STDOUT_FILENO)
            if !lines.isEmpty { writeToErrors(state.region.draw(lines, size: size)) }
            state.outputProblem = problem
            if problem != 0, !state.isOutputClosed {
                let reason = String(cString: strerror(problem))
                writeToErrors(state.region.insert("convoy: standard output can no longer be written: \(reason)\n"))
            }
            guard state.isOutputClosed else { return nil }
            defer { state.onClosed = nil }
            return state.onClosed
        }
        onClosed?()
    }

    func printError(_ line: String, isFailure: Bool = false) {
        let size = size
        var text = line.visible()
        if isLive { text = text.wrapped(toColumns: size.width - 1) }
        if isFailure, hasColour, let end = text.firstIndex(of: " ") {
            text = "\u{1B}[31m\(text[..<end])\u{1B}[m\(text[end...])"
        }
        state.withLock { [text] state in
            forgetRegionInBackground(&state)
            writeToErrors(state.region.insert(text + "\n", columns: size.width))
        }
    }

    func draw(_ lines: [String], above permanent: [String] = []) {
        guard isLive else { return }
        let size = size
        let text = permanent.map { $0.visible().wrapped(toColumns: size.width - 1) + "\n" }.joined()
        state.withLock { state in
            guard Terminal.errors.isForeground else {
                state.region = LiveRegion()
                return writeToErrors(text)
            }
            writeToErrors(state.region.draw(lines.map { $0.visible() }, size: size, above: text))
        }
    }

    // The shell then writes to the same terminal, and may have moved the lines of the region.
    private func forgetRegionInBackground(_ state: inout State) {
        if isLive, !Terminal.errors.isForeground { state.region = LiveRegion() }
    }

    func endLive() {
        state.withLock { state in writeToErrors(state.region.erase(columns: size.width)) }
    }

    /// The lock is held during the stop, so that no thread draws before the process has stopped.
    func stopProcess() {
        state.withLock { state in
            writeToErrors(state.region.erase(columns: size.width))
            kill(getpid(), SIGSTOP)
        }
    }

    private func writeToErrors(_ text: String) {
        if !text.isEmpty { _ = StandardStreams.write(text, to: STDERR_FILENO) }
    }
}

// The caller writes the sequences. The cursor stays at the start of the line below the region.
struct LiveRegion {
    static let showCursor = "\u{1B}[?25h"
    private static let hideCursor = "\u{1B}[?25l"
    private static let endLine = "\u{1B}[K\n"

    private(set) var lines: [String] = []
    private var isCursorHidden = false

    mutating func draw(_ newLines: [String], size: Terminal.Size, above: String = "") -> String {
        // The last column stays free, because some terminals wrap as soon as it is filled.
        let fitting = newLines.prefix(max(0, size.height - 1)).map { $0.clipped(toColumns: max(1, size.width - 1)) }
        guard fitting != lines || !above.isEmpty else { return "" }
        let start = (isCursorHidden ? "" : Self.hideCursor) + toTop(columns: size.width)
        isCursorHidden = true
        lines = fitting
        return start + cleared(above) + below
    }

    mutating func erase(columns: Int? = nil) -> String {
        guard isCursorHidden else { return "" }
        defer { self = LiveRegion() }
        let top = toTop(columns: columns)
        let blank = String(repeating: Self.endLine, count: rowCount(columns: columns))
        // The terminal may have echoed a key below the lines, for example ^C.
        return top + blank + "\u{1B}[J" + top + Self.showCursor
    }

    func insert(_ text: String, columns: Int? = nil) -> String {
        guard !lines.isEmpty else { return text }
        return toTop(columns: columns) + cleared(text) + below
    }

    private var below: String { lines.map { $0 + Self.endLine }.joined() + "\u{1B}[J" }

    // Rows are cleared one by one. When a screen is cleared from its top, some terminals, for example tmux, save
    // its text in their history.
    private func cleared(_ text: String) -> String { text.replacing("\n", with: Self.endLine) }

    private func toTop(columns: Int?) -> String {
        let rows = rowCount(columns: columns)
        return rows == 0 ? "\r" : "\r\u{1B}[\(rows)A"
    }

    // A terminal that has become narrower has wrapped long lines.
    private func rowCount(columns: Int?) -> Int {
        guard let columns, columns > 0 else { return lines.count }
        return lines.reduce(0) { $0 + max(1, ($1.columnCount + columns - 1) / columns) }
    }
}
