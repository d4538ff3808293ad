import Convoy
import Foundation

// Safe to use from any thread. A dedicated thread receives the signals. Another thread stops the run, without holding
// the lock, so a slow stop does not delay the second signal, which ends the process at once.
final class Interruption: Sendable {
    private struct State {
        var reason: ExitStatus?
        var received: ContinuousClock.Instant?
        var stop: (@Sendable () -> Void)?
        var patience = Interruption.patience
        var isWatching = false
        var stopSource: (any DispatchSourceSignal)?
    }

    private static let patience: UInt32 = 5

    private static let oneSignal = Duration.milliseconds(100)

    private let state = Locked(State())
    private let queue = DispatchQueue(label: "convoy.signals", qos: .userInteractive)
    private let stopping = DispatchSemaphore(value: 0)
    private let leave: @Sendable (ExitStatus) -> Void

    /// - Parameter leave: ends the process at once. The function must not wait for anything, not even a lock.
    init(leave: @escaping @Sendable (ExitStatus) -> Void = Interruption.leaveAtOnce) {
        self.leave = leave
    }

    /// Shows the cursor again, without any console's lock, and exits.
    static let leaveAtOnce: @Sendable (ExitStatus) -> Void = { status in
        Terminal.errors.restoreCursor()
        _exit(status.code)
    }

    var reason: ExitStatus? { state.withLock { $0.reason } }

    func onStop(_ stop: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            if state.reason == nil { state.stop = stop }
            return state.reason != nil
        }
        if isLate { stop() }
    }

    func allow(seconds: UInt32) { state.withLock { $0.patience = seconds } }

    func interrupt(_ status: ExitStatus) {
        let (isFirst, isWatching, patience) = state.withLock { state in
            guard state.reason == nil else { return (false, false, state.patience) }
            state.reason = status
            return (true, state.isWatching, state.patience)
        }
        guard isFirst else { return }
        guard isWatching else { return stop() }
        // SIGALRM ends a run that does not stop in time. A signal needs no new thread.
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

    // All threads block the signals, except the thread that waits for them and the main thread, which libdispatch
    // suspends in sigsuspend(2). Main thread, before other threads exist.
    func watchSignals() -> Bool {
        signal(SIGPIPE, SIG_IGN)
        // With SIGXFSZ ignored, a write beyond the size limit (`ulimit -f`) fails with EFBIG.
        signal(SIGXFSZ, SIG_IGN)
        var watched: [Int32: ExitStatus] = [SIGINT: .interrupted, SIGTERM: .terminated]
        // SIGHUP stays ignored if the parent ignored it, as nohup does.
        if let present = sigaction.current(of: SIGHUP), present.handler == nil { watched[SIGHUP] = .hangUp }
        var atOnce = [SIGALRM]
        // Where a toolchain is installed, Swift handles Ctrl-\ by printing a backtrace, and the process continues.
        if let present = sigaction.current(of: SIGQUIT), present.handler == nil || present.sa_flags & SA_SIGINFO != 0 {
            atOnce.append(SIGQUIT)
        }
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in watched.keys + atOnce { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        state.withLock { $0.isWatching = true }
        let listener = PlainThread { [signals, watched] in
            var signals = signals
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            while let number = SignalPipe.next() {
                if let status = watched[number] { self.received(status) } else { self.leave(self.reason ?? .failure) }
            }
        }
        for number in watched.keys + atOnce { SignalPipe.take(number) }
        let stopper = PlainThread {
            self.stopping.wait()
            self.stop()
        }
        return listener != nil && stopper != nil && SignalPipe.isOpen
    }

    func watch(_ console: Console) {
        console.onOutputClosed { self.interrupt(.outputClosed) }
        guard console.isLive, let present = sigaction.current(of: SIGTSTP), present.handler == nil else { return }
        #if canImport(Darwin)
            // On Darwin a dispatch source only observes the signal, which would still stop the process.
            signal(SIGTSTP, SIG_IGN)
        #endif
        // On Linux the source may install its signal handler after `resume` has returned. A signal that is ignored
        // until then would be lost, so the default action stays.
        let source = DispatchSource.makeSignalSource(signal: SIGTSTP, queue: queue)
        source.setEventHandler {
            // As by the kernel, Ctrl-Z is ignored without a shell with job control, which could resume this process.
            let parent = getppid()
            if getsid(parent) == getsid(0), getpgid(parent) != getpgrp() { console.stopProcess() }
        }
        state.withLock { $0.stopSource = source }
        source.resume()
    }

    // The first signal stops the run, the second ends the process.
    // Some programs, for example `timeout`, send a signal to the process and then to its process group. So signals
    // within ``oneSignal`` after the first one count as the first.
    func received(_ status: ExitStatus, at now: ContinuousClock.Instant = .now) {
        let first = state.withLock { state in
            state.received = state.received ?? now
            return state.received ?? now
        }
        if reason == nil { interrupt(status) } else if now - first >= Self.oneSignal { leave(status) }
    }
}

extension sigaction {
    static func current(of number: Int32) -> sigaction? {
        var present = sigaction()
        return sigaction(number, nil, &present) == 0 ? present : nil
    }

    // It is nil for SIG_DFL, which is the null pointer. It is not nil for SIG_IGN.
    var handler: (@convention(c) (Int32) -> Void)? {
        get {
            #if canImport(Darwin)
                return __sigaction_u.__sa_handler
            #else
                return __sigaction_handler.sa_handler
            #endif
        }
        set {
            #if canImport(Darwin)
                __sigaction_u.__sa_handler = newValue
            #else
                __sigaction_handler.sa_handler = newValue
            #endif
        }
    }
}

// A handler may call only async-signal-safe functions, such as write(2).
private enum SignalPipe {
    private static let ends: (reading: Int32, writing: Int32) = {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A write never waits. If the pipe is full, the reader is awake already and needs no further byte.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        return (ends[0], ends[1])
    }()

    static var isOpen: Bool { ends.writing >= 0 }

    static func take(_ number: Int32) {
        // Opens the pipe before the handler uses it.
        guard isOpen else { return }
        signal(number) { number in
            let earlier = errno
            var byte = UInt8(truncatingIfNeeded: number)
            _ = write(SignalPipe.ends.writing, &byte, 1)
            errno = earlier
        }
    }

    static func next() -> Int32? {
        var byte: UInt8 = 0
        while true {
            let count = read(ends.reading, &byte, 1)
            if count == 1 { return Int32(byte) }
            guard count < 0, errno == EINTR else { return nil }
        }
    }
}
