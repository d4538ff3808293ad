// Standard output and standard error of the command, with a live region on a terminal.
import Convoy
import Foundation

/// Writes to standard output and standard error.
///
/// If ``isLive`` is true, the last lines on standard error are a live region, which is redrawn.
///
/// Control characters in lines are replaced, so a server's text cannot move the cursor.
///
/// ## Concurrency
/// Safe to use from any thread. A lock orders the output. The lock is held during writes, so a slow reader blocks every
/// writer. No handler is called under the lock.
final class Console: Sendable {
    private struct State {
        var region = LiveRegion()
        /// The `errno` of the first failed write to standard output; 0 if none failed.
        var outputProblem: Int32 = 0
        var isOutputClosed: Bool { [EPIPE, EBADF].contains(outputProblem) }
        var onClosed: (@Sendable () -> Void)?
    }

    /// Whether standard error has a live region.
    let isLive: Bool
    let isOutputTerminal: Bool
    /// Whether standard output is a pipe to another program.
    let isOutputPipe: Bool
    /// Whether standard output is for events.
    let isJSON: Bool
    private let hasColour: Bool
    private let state = Locked(State())

    init(allowsLive: Bool, isJSON: Bool = false) {
        self.isJSON = isJSON
        isOutputPipe = Terminal.output.isPipe
        // The reader of a pipe, for example tee, may write to this terminal in the middle of the region. So with a pipe
        // there is no region.
        isLive = allowsLive && Terminal.errors.canRedraw && !isOutputPipe
        isOutputTerminal = Terminal.output.isTerminal
        hasColour = Terminal.errors.hasColour
    }

    /// Whether standard output is closed.
    ///
    /// Nothing more is written to a closed output.
    var isOutputClosed: Bool { state.withLock { $0.isOutputClosed } }

    /// Records the result of a write to standard output by other code: 0, or an `errno`.
    func noteOutputProblem(_ code: Int32) { state.withLock { if $0.outputProblem == 0 { $0.outputProblem = code } } }

    /// The exit status of the process after a run.
    ///
    /// If standard output is closed, the result is ``ExitStatus/outputClosed``. After any other failed write to
    /// standard output, a success becomes a failure.
    func status(after status: ExitStatus) -> ExitStatus {
        state.withLock { state in
            if state.isOutputClosed { return .outputClosed }
            return state.outputProblem != 0 && status == .success ? .failure : status
        }
    }

    /// The current size of the live region's terminal.
    var size: Terminal.Size { Terminal.errors.size }

    /// Sets a handler that is called once when a write finds standard output closed.
    ///
    /// If standard output is closed already, the handler is called at once.
    func onOutputClosed(_ handler: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if !state.isOutputClosed { state.onClosed = handler }
            return state.isOutputClosed
        }
        if isLate { handler() }
    }

    /// Writes one or more lines to standard output.
    ///
    /// Control characters except line ends are replaced.
    ///
    /// - Parameters:
    ///   - wraps: whether long lines are wrapped at blanks if standard output is a terminal.
    ///   - isContent: whether the text is written unchanged if standard output is not a terminal.
    ///
    /// If the text cannot be written, nothing more is written to standard output, because the rest could begin in the
    /// middle of a line. Unless the output is closed, an error is printed once on standard error.
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

    /// Writes one line to standard error, above the live region.
    ///
    /// With a live region, the line is wrapped at blanks.
    ///
    /// - Parameter isFailure: whether the first word has the colour of failures, if the terminal has colours.
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

    /// Shows lines in the live region, with one write.
    ///
    /// Has no effect without a region.
    ///
    /// - Parameter permanent: lines to print above the region, which are not redrawn.
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

    /// Forgets the live region while the process is in the background.
    ///
    /// The shell then writes to the same terminal, and may have moved the lines of the region.
    private func forgetRegionInBackground(_ state: inout State) {
        if isLive, !Terminal.errors.isForeground { state.region = LiveRegion() }
    }

    /// Removes the live region and shows the cursor.
    func endLive() {
        state.withLock { state in writeToErrors(state.region.erase(columns: size.width)) }
    }

    /// Stops the process like Ctrl-Z.
    ///
    /// The live region is removed until the process resumes.
    ///
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
