// Ctrl-C, a polite kill, a terminal that hangs up, a standard output that nobody reads any more.
import Foundation

/// Turns the first reason to stop into a cancellation and the second into an immediate exit.
///
/// ## Concurrency
/// Use it from any thread. Signals arrive on a queue of their own; no lock is held while what was asked for is done.
final class Interruption: Sendable {
    private struct State {
        var reason: ExitStatus?
        /// When the first signal came.
        var received: ContinuousClock.Instant?
        var stop: (@Sendable () -> Void)?
        var sources: [any DispatchSourceSignal] = []
    }

    /// How long a cancelled run may take to end before the process leaves without it.
    private static let patience = DispatchTimeInterval.seconds(5)

    /// What comes within this time of the first signal is the same one.
    private static let oneSignal = Duration.milliseconds(100)

    private let state = Locked(State())
    private let queue = DispatchQueue(label: "convoy.signals", qos: .userInteractive)
    private let leave: @Sendable (ExitStatus) -> Void

    /// - Parameter leave: ends the process at once; it must not wait for anything, a lock included.
    init(leave: @escaping @Sendable (ExitStatus) -> Void = Interruption.leaveAtOnce) {
        self.leave = leave
    }

    /// Shows the cursor again, without the lock of any console, and goes.
    static let leaveAtOnce: @Sendable (ExitStatus) -> Void = { status in
        Terminal.errors.restoreCursor()
        _exit(status.code)
    }

    /// The first reason to stop; nil while there is none.
    var reason: ExitStatus? { state.withLock { $0.reason } }

    /// Says what stops the run; done at once when there is a reason already.
    func onStop(_ stop: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            state.stop = stop
            return state.reason != nil
        }
        if isLate { stop() }
    }

    /// Stops the run for a reason; later reasons have no effect.
    func interrupt(_ status: ExitStatus) {
        let (isFirst, stop) = state.withLock { state in
            guard state.reason == nil else { return (false, (@Sendable () -> Void)?.none) }
            state.reason = status
            return (true, state.stop)
        }
        guard isFirst else { return }
        queue.asyncAfter(deadline: .now() + Self.patience) { [leave] in leave(status) }
        stop?()
    }

    /// Takes the signals over from their default, which ends the process without cleaning up.
    func watchSignals() {
        signal(SIGPIPE, SIG_IGN)
        // A file that may not grow any more (`ulimit -f`) is an error of that file.
        signal(SIGXFSZ, SIG_IGN)
        watch(SIGINT, as: .interrupted)
        watch(SIGTERM, as: .terminated)
        // Left alone where it is ignored already: that is what nohup does.
        var present = sigaction()
        if sigaction(SIGHUP, nil, &present) == 0, present.isDefault { watch(SIGHUP, as: .hangUp) }
    }

    /// Has Ctrl-Z take the live region away before it stops the process.
    func watchStops(of console: Console) {
        var present = sigaction()
        guard console.isLive, sigaction(SIGTSTP, nil, &present) == 0, present.isDefault else { return }
        watch(SIGTSTP) {
            // Where no shell waits for this job, nobody could make it go on: the system ignores Ctrl-Z then, and so do we.
            let parent = getppid()
            if getsid(parent) == getsid(0), getpgid(parent) != getpgrp() { console.stopProcess() }
        }
    }

    private func watch(_ number: Int32, as status: ExitStatus) {
        watch(number) { [weak self] in self?.received(status) }
    }

    private func watch(_ number: Int32, _ received: @escaping @Sendable () -> Void) {
        #if canImport(Darwin)
            // A source there only looks on: without this the process ends all the same.
            signal(number, SIG_IGN)
        #endif
        // On Linux the source brings a handler of its own, some time after `resume`. Ignored until then, a signal would
        // be lost; by default it ends the process, which has not begun anything yet.
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: received)
        state.withLock { $0.sources.append(source) }
        source.resume()
    }

    /// A signal has come: the first stops the run, the second ends the process.
    ///
    /// Some programs (`timeout`) send one signal to the process and then to its group: that is one.
    func received(_ status: ExitStatus, at now: ContinuousClock.Instant = .now) {
        let first = state.withLock { state in
            state.received = state.received ?? now
            return state.received ?? now
        }
        if reason == nil { interrupt(status) } else if now - first >= Self.oneSignal { leave(status) }
    }
}

extension sigaction {
    /// Whether the signal does what it does by default.
    fileprivate var isDefault: Bool {
        #if canImport(Darwin)
            let handler = __sigaction_u.__sa_handler
        #else
            let handler = __sigaction_handler.sa_handler
        #endif
        // A C function pointer that is SIG_DFL, 0, comes as nil; SIG_IGN, 1, does not.
        return handler == nil
    }
}
