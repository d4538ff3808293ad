// Everything the command says goes through here.
import Convoy
import Foundation

/// Standard output and standard error, with a live region on the latter where that is a terminal.
///
/// Lines are made safe before they are written: no text of a server can move the cursor.
///
/// ## Concurrency
/// Use it from any thread. Its lock orders what is written and is held while writing, so a reader that does not read
/// holds up whoever prints; nothing else is done under it.
final class Console: Sendable {
    private struct State {
        var region = LiveRegion()
        /// Why standard output cannot be written; 0 while it can.
        var outputProblem: Int32 = 0
        var isOutputClosed: Bool { [EPIPE, EBADF].contains(outputProblem) }
        var onClosed: (@Sendable () -> Void)?
    }

    /// Whether there is a live region.
    let isLive: Bool
    /// Whether standard output is a terminal too.
    let isOutputTerminal: Bool
    /// Whether another program reads standard output as it comes.
    let isOutputPipe: Bool
    private let hasColour: Bool
    private let state = Locked(State())

    init(allowsLive: Bool) {
        isOutputPipe = Terminal.output.isPipe
        // The reader of a pipe, tee for example, may write to this very terminal, in the middle of the region.
        isLive = allowsLive && Terminal.errors.canRedraw && !isOutputPipe
        isOutputTerminal = Terminal.output.isTerminal
        hasColour = Terminal.errors.hasColour
    }

    /// Whether standard output has been closed; nothing more is written there then.
    var isOutputClosed: Bool { state.withLock { $0.isOutputClosed } }

    /// Notes that what else is written to standard output could not be.
    func noteOutputProblem(_ code: Int32) { state.withLock { if $0.outputProblem == 0 { $0.outputProblem = code } } }

    /// What the process ends with after a run: one whose output could not be written is no success.
    func status(after status: ExitStatus) -> ExitStatus {
        state.withLock { state in
            if state.isOutputClosed { return .outputClosed }
            return state.outputProblem != 0 && status == .success ? .failure : status
        }
    }

    /// The size of the live region's terminal now.
    var size: Terminal.Size { Terminal.errors.size }

    /// Says what to do, once, when standard output has been closed; at once if it is so already.
    func onOutputClosed(_ handler: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if !state.isOutputClosed { state.onClosed = handler }
            return state.isOutputClosed
        }
        if isLate { handler() }
    }

    /// Writes to standard output: lines of ours, which may be several, or one with text of others in it.
    ///
    /// - Parameter wraps: whether on a terminal they are broken at blanks, as sentences are.
    ///
    /// Where it cannot be written, on a full disk for example, that is told once on standard error, and nothing more is
    /// written there: the rest could begin in the middle of a line.
    func printLine(_ line: String, wraps: Bool = false) {
        var text = line.visible(keepsNewlines: true)
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
                writeToErrors(state.region.insert("convoy: standard output cannot be written any more: \(reason)\n"))
            }
            guard state.isOutputClosed else { return nil }
            defer { state.onClosed = nil }
            return state.onClosed
        }
        onClosed?()
    }

    /// Writes one line to standard error, above the live region; on a terminal it is broken at blanks.
    ///
    /// - Parameter isFailure: whether its first word has the colour of failures, where the terminal has colours.
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

    /// Shows these lines in the live region, in one write; without effect where there is none.
    ///
    /// - Parameter permanent: lines that stay, above the region.
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

    /// In the background the screen is the shell's: what was drawn is where it was no more.
    private func forgetRegionInBackground(_ state: inout State) {
        if isLive, !Terminal.errors.isForeground { state.region = LiveRegion() }
    }

    /// Takes the live region away and shows the cursor.
    func endLive() {
        state.withLock { state in writeToErrors(state.region.erase(columns: size.width)) }
    }

    /// Stops the process as Ctrl-Z does by default; the screen is as if there had been no live region until it goes on.
    ///
    /// The lock is held all the while, so that nothing is drawn in between.
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
