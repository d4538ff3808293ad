// Ctrl-C, a polite kill, a terminal that hangs up, a standard output that nobody reads any more.
import Convoy
import Foundation

/// Turns the first reason to stop into a cancellation and the second into an immediate exit.
///
/// ## Concurrency
/// Use it from any thread. Signals arrive on a thread of their own, which waits for nothing else, so that the second one
/// ends the process whatever the others wait for. Another one stops the run; no lock is held meanwhile.
final class Interruption: Sendable {
    private struct State {
        var reason: ExitStatus?
        /// When the first signal came.
        var received: ContinuousClock.Instant?
        var stop: (@Sendable () -> Void)?
        var patience = Interruption.patience
        /// Whether there are threads for signals and for stopping.
        var isWatching = false
        var sources: [any DispatchSourceSignal] = []
    }

    /// How many seconds a cancelled run may take to end before the process leaves without it.
    private static let patience: UInt32 = 5

    /// What comes within this time of the first signal is the same one.
    private static let oneSignal = Duration.milliseconds(100)

    private let state = Locked(State())
    private let queue = DispatchQueue(label: "convoy.signals", qos: .userInteractive)
    /// Raised when there is a reason to stop.
    private let stopping = DispatchSemaphore(value: 0)
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
            if state.reason == nil { state.stop = stop }
            return state.reason != nil
        }
        if isLate { stop() }
    }

    /// Gives a cancelled run more time to end; before there is a reason.
    func allow(seconds: UInt32) { state.withLock { $0.patience = seconds } }

    /// Stops the run for a reason; later reasons have no effect.
    func interrupt(_ status: ExitStatus) {
        let (isFirst, isWatching, patience) = state.withLock { state in
            guard state.reason == nil else { return (false, false, state.patience) }
            state.reason = status
            return (true, state.isWatching, state.patience)
        }
        guard isFirst else { return }
        guard isWatching else { return stop() }
        // Comes as a signal, for which no thread has to be made.
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

    /// Takes the signals over from their default, which ends the process without cleaning up.
    ///
    /// Two threads see them, the others have them blocked: the one that waits for them, and libdispatch's main one, which
    /// blocks none.
    ///
    /// - Returns: whether there were threads for that.
    /// - Thread: the main one, before there is any other.
    func watchSignals() -> Bool {
        signal(SIGPIPE, SIG_IGN)
        // A file that may not grow any more (`ulimit -f`) is an error of that file.
        signal(SIGXFSZ, SIG_IGN)
        var watched: [Int32: ExitStatus] = [SIGINT: .interrupted, SIGTERM: .terminated]
        // Left alone where it is ignored already: that is what nohup does.
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

/// Where handlers tell of signals: a pipe, because they may touch nothing else.
private enum SignalPipe {
    private static let ends: (reading: Int32, writing: Int32) = {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A full one has enough to tell.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        return (ends[0], ends[1])
    }()

    static var isOpen: Bool { ends.writing >= 0 }

    /// Has a signal told here instead of what it does by default.
    static func take(_ number: Int32) {
        // Made now, not in a handler.
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
