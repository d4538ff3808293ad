// Handles Ctrl-C, termination signals, a terminal that hangs up, and a closed standard output.
import Convoy
import Foundation

/// The first reason to stop cancels the run.
///
/// The second ends the process at once.
///
/// ## Concurrency
/// Use it from any thread. A dedicated thread receives signals and waits for nothing else, so that the second signal
/// ends the process in any case. Another thread stops the run. No lock is held meanwhile.
final class Interruption: Sendable {
    private struct State {
        var reason: ExitStatus?
        /// When the first signal arrived.
        var received: ContinuousClock.Instant?
        var stop: (@Sendable () -> Void)?
        var patience = Interruption.patience
        /// Whether there are threads for signals and for stopping.
        var isWatching = false
        var sources: [any DispatchSourceSignal] = []
    }

    /// The number of seconds that a cancelled run may take before the process exits.
    private static let patience: UInt32 = 5

    /// Signals within this time of the first one count as the same.
    private static let oneSignal = Duration.milliseconds(100)

    private let state = Locked(State())
    private let queue = DispatchQueue(label: "convoy.signals", qos: .userInteractive)
    /// Signalled when there is a reason to stop.
    private let stopping = DispatchSemaphore(value: 0)
    private let leave: @Sendable (ExitStatus) -> Void

    /// - Parameter leave: ends the process at once. It must not wait for anything, not even a lock.
    init(leave: @escaping @Sendable (ExitStatus) -> Void = Interruption.leaveAtOnce) {
        self.leave = leave
    }

    /// Shows the cursor again, without any console's lock, and exits.
    static let leaveAtOnce: @Sendable (ExitStatus) -> Void = { status in
        Terminal.errors.restoreCursor()
        _exit(status.code)
    }

    /// The first reason to stop; nil while there is none.
    var reason: ExitStatus? { state.withLock { $0.reason } }

    /// Sets the function that stops the run.
    ///
    /// Called at once if there is already a reason.
    func onStop(_ stop: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if state.reason == nil { state.stop = stop }
            return state.reason != nil
        }
        if isLate { stop() }
    }

    /// Gives a cancelled run more time.
    ///
    /// Call it before there is a reason.
    func allow(seconds: UInt32) { state.withLock { $0.patience = seconds } }

    /// Stops the run for a reason.
    ///
    /// Later reasons have no effect.
    func interrupt(_ status: ExitStatus) {
        let (isFirst, isWatching, patience) = state.withLock { state in
            guard state.reason == nil else { return (false, false, state.patience) }
            state.reason = status
            return (true, state.isWatching, state.patience)
        }
        guard isFirst else { return }
        guard isWatching else { return stop() }
        // A signal needs no new thread.
        alarm(patience)
        stopping.signal()
    }

    private func stop() {
        let stop = state.withLock { state in
            defer { state.stop = nil }
            return state.stop
        }
        stop?()
    }

    /// Replaces the default actions of signals, which end the process without cleaning up.
    ///
    /// All threads block the signals, except the thread that waits for them and libdispatch's main thread.
    ///
    /// - Returns: whether the threads could be created.
    /// - Thread: the main thread, before there are others.
    func watchSignals() -> Bool {
        signal(SIGPIPE, SIG_IGN)
        // A file at its size limit (`ulimit -f`) should be an error of that file.
        signal(SIGXFSZ, SIG_IGN)
        var watched: [Int32: ExitStatus] = [SIGINT: .interrupted, SIGTERM: .terminated]
        // An ignored signal stays ignored, as with nohup.
        var present = sigaction()
        if sigaction(SIGHUP, nil, &present) == 0, present.isDefault { watched[SIGHUP] = .hangUp }
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in watched.keys + [SIGALRM] { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        state.withLock { $0.isWatching = true }
        let listener = PlainThread { [signals, watched] in
            var signals = signals
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            while let number = SignalPipe.next() {
                if let status = watched[number] { self.received(status) } else { self.leave(self.reason ?? .failure) }
            }
        }
        for number in watched.keys + [SIGALRM] { SignalPipe.take(number) }
        let stopper = PlainThread {
            self.stopping.wait()
            self.stop()
        }
        return listener != nil && stopper != nil && SignalPipe.isOpen
    }

    /// Ends the run when standard output is closed, and makes Ctrl-Z remove the live region before it stops the
    /// process.
    func watch(_ console: Console) {
        console.onOutputClosed { self.interrupt(.outputClosed) }
        var present = sigaction()
        guard console.isLive, sigaction(SIGTSTP, nil, &present) == 0, present.isDefault else { return }
        watch(SIGTSTP) {
            // Without a shell that controls this job, it could not be resumed. The system then ignores Ctrl-Z, and so
            // does this code.
            let parent = getppid()
            if getsid(parent) == getsid(0), getpgid(parent) != getpgrp() { console.stopProcess() }
        }
    }

    private func watch(_ number: Int32, _ received: @escaping @Sendable () -> Void) {
        #if canImport(Darwin)
            // There, a dispatch source only observes. Without this call the signal would still end the process.
            signal(number, SIG_IGN)
        #endif
        // On Linux the source installs its own handler some time after `resume`. If the signal were ignored until
        // then, it would be lost. By default it ends the process, which has not started anything yet.
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: received)
        state.withLock { $0.sources.append(source) }
        source.resume()
    }

    /// Handles a signal.
    ///
    /// The first stops the run, the second ends the process.
    ///
    /// Some programs (`timeout`) send a signal to the process and then to its group, which counts as one.
    func received(_ status: ExitStatus, at now: ContinuousClock.Instant = .now) {
        let first = state.withLock { state in
            state.received = state.received ?? now
            return state.received ?? now
        }
        if reason == nil { interrupt(status) } else if now - first >= Self.oneSignal { leave(status) }
    }
}

extension sigaction {
    /// Whether the signal has its default action.
    fileprivate var isDefault: Bool {
        #if canImport(Darwin)
            let handler = __sigaction_u.__sa_handler
        #else
            let handler = __sigaction_handler.sa_handler
        #endif
        // SIG_DFL is the null pointer, which is imported as nil; SIG_IGN is not.
        return handler == nil
    }
}

/// A pipe through which handlers report signals, because a handler may not use anything else.
private enum SignalPipe {
    private static let ends: (reading: Int32, writing: Int32) = {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // If the pipe is full, a wake-up is already pending.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        return (ends[0], ends[1])
    }()

    static var isOpen: Bool { ends.writing >= 0 }

    /// Reports a signal through the pipe instead of its default action.
    static func take(_ number: Int32) {
        // Initialised here, not in a handler.
        guard isOpen else { return }
        signal(number) { number in
            let earlier = errno
            var byte = UInt8(truncatingIfNeeded: number)
            _ = write(SignalPipe.ends.writing, &byte, 1)
            errno = earlier
        }
    }

    /// Waits for a signal; nil when there can be none.
    static func next() -> Int32? {
        var byte: UInt8 = 0
        while true {
            let count = read(ends.reading, &byte, 1)
            if count == 1 { return Int32(byte) }
            guard count < 0, errno == EINTR else { return nil }
        }
    }
}
