import Foundation
import Synchronization

// The prompt is independent of the standard streams. Main thread, before other threads exist and before signals are
// watched.
struct PasswordPrompt {
    /// The initializer of the prompt uses this property first, so a signal handler never initialises it lazily.
    private static let received = Atomic<Int32>(0)
    private static let watched = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    private let descriptor: Int32

    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        if descriptor < 0 { return nil }
        Self.received.store(0, ordering: .relaxed)
    }

    func password(_ question: String) -> String? {
        // The signals are unblocked, because the parent process may have blocked them.
        var (signals, mask) = (sigset_t(), sigset_t())
        sigemptyset(&signals)
        for number in Self.watched { sigaddset(&signals, number) }
        pthread_sigmask(SIG_UNBLOCK, &signals, &mask)
        defer {
            pthread_sigmask(SIG_SETMASK, &mask, nil)
            close(descriptor)
        }
        while true {
            let earlier = Self.watched.map { number in (number, Self.take(number)) }
            let line = ask(question)
            for (number, action) in earlier {
                var action = action
                sigaction(number, &action, nil)
            }
            let signal = Self.received.exchange(0, ordering: .relaxed)
            guard signal != 0 else { return line }
            // Raises the signal again, so that the shell sees what ended or stopped the process.
            kill(getpid(), signal)
        }
    }

    private func ask(_ question: String) -> String? {
        var settings = termios()
        let isTerminal = tcgetattr(descriptor, &settings) == 0
        var silent = settings
        silent.c_lflag &= ~tcflag_t(ECHO)
        if isTerminal { tcsetattr(descriptor, TCSAFLUSH, &silent) }
        defer { if isTerminal { tcsetattr(descriptor, TCSAFLUSH, &settings) } }
        _ = StandardStreams.write(question, to: descriptor)
        defer { _ = StandardStreams.write("\n", to: descriptor) }
        return line()
    }

    private func line() -> String? {
        var (bytes, byte) = ([UInt8](), UInt8(0))
        while Self.received.load(ordering: .relaxed) == 0 {
            // A signal that arrives directly before `poll` does not end the wait, so the wait has a limit of 200 ms.
            var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, 200) > 0 else { continue }
            let count = read(descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            if count <= 0, bytes.isEmpty { return nil }
            if count <= 0 || byte == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        return nil
    }

    private static func take(_ number: Int32) -> sigaction {
        var (earlier, action) = (sigaction(), sigaction())
        sigaction(number, nil, &earlier)
        // A signal that the parent ignored (SIG_IGN, the pointer 1) stays ignored, as with nohup.
        if earlier.handler.map({ unsafeBitCast($0, to: Int.self) }) == 1 { return earlier }
        action.handler = { PasswordPrompt.received.store($0, ordering: .relaxed) }
        sigaction(number, &action, nil)
        return earlier
    }
}

extension CredentialOptions {
    mutating func askForPassword() throws(UsageError) {
        guard let name = userWithoutPassword else { return }
        guard let prompt = PasswordPrompt() else {
            throw UsageError(
                "--user has no password, and without a terminal convoy cannot ask for it: use -u - with NAME:PASSWORD on standard "
                    + "input, or use --netrc")
        }
        guard let password = prompt.password("Password of \(name.visible()): ") else {
            throw UsageError("--user has no password: nothing was typed; repeat the command")
        }
        do { try setUser(name, password) } catch { throw UsageError("--user\(error.message)") }
    }
}
