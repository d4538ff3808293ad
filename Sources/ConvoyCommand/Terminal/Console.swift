// All output of the command.
import Convoy
import Foundation

/// Standard output and standard error.
///
/// If the latter is a terminal, it has a live region.
///
/// Control characters in lines are replaced, so a server's text cannot move the cursor.
///
/// ## Concurrency
/// Use it from any thread. Its lock orders the output and is held while writing, so a slow reader blocks all writers.
/// Nothing else happens under the lock.
final class Console: Sendable {
    private struct State {
        var region = LiveRegion()
        /// The error number of standard output; 0 without an error.
        var outputProblem: Int32 = 0
        var isOutputClosed: Bool { [EPIPE, EBADF].contains(outputProblem) }
        var onClosed: (@Sendable () -> Void)?
    }

    /// Whether there is a live region.
    let isLive: Bool
    /// Whether standard output is also a terminal.
    let isOutputTerminal: Bool
    /// Whether standard output is a pipe to another program.
    let isOutputPipe: Bool
    private let hasColour: Bool
    private let state = Locked(State())

    init(allowsLive: Bool) {
        isOutputPipe = Terminal.output.isPipe
        // The reader of a pipe, for example tee, may write to this terminal in the middle of the region.
        isLive = allowsLive && Terminal.errors.canRedraw && !isOutputPipe
        isOutputTerminal = Terminal.output.isTerminal
        hasColour = Terminal.errors.hasColour
    }

    /// Whether standard output was closed.
    ///
    /// Nothing more is written there then.
    var isOutputClosed: Bool { state.withLock { $0.isOutputClosed } }

    /// Records that other output to standard output failed.
    func noteOutputProblem(_ code: Int32) { state.withLock { if $0.outputProblem == 0 { $0.outputProblem = code } } }

    /// The exit status after a run.
    ///
    /// If output could not be written, it is not a success.
    func status(after status: ExitStatus) -> ExitStatus {
        state.withLock { state in
            if state.isOutputClosed { return .outputClosed }
            return state.outputProblem != 0 && status == .success ? .failure : status
        }
    }

    /// The current size of the live region's terminal.
    var size: Terminal.Size { Terminal.errors.size }

    /// Sets a handler that is called once when standard output was closed; at once if it already is.
    func onOutputClosed(_ handler: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if !state.isOutputClosed { state.onClosed = handler }
            return state.isOutputClosed
        }
        if isLate { handler() }
    }

    /// Writes to standard output: several lines of the command, or one line with foreign text.
    ///
    /// - Parameters:
    ///   - wraps: whether on a terminal they are broken at blanks, as sentences are.
    ///   - isContent: whether a program reads them: but on a terminal they stay as they are.
    ///
    /// If it cannot be written, for example on a full disk, an error is printed once on standard error. Nothing more is
    /// written to standard output, because the rest could begin in the middle of a line.
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
    /// On a terminal it is wrapped at blanks.
    ///
    /// - Parameter isFailure: whether its first word is shown in the colour of failures, if the terminal has colours.
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

    /// Shows these lines in the live region, with one write.
    ///
    /// No effect without a region.
    ///
    /// - Parameter permanent: lines above the region that stay.
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

    /// In the background the shell uses the screen, so the region is no longer where it was drawn.
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
    /// The lock is held during the stop, so that nothing is drawn in between.
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
