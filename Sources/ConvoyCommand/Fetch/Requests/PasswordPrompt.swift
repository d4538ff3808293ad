// A password that is asked for at the terminal.
import Foundation
import Synchronization

/// Asks at the terminal of the process, wherever its standard streams lead, and shows nothing of what is typed.
///
/// - Thread: the main one, before there is any other and before signals are watched.
struct PasswordPrompt {
    /// The last signal that has come while a password was typed; 0 for none.
    ///
    /// Made before a handler touches it.
    private static let received = Atomic<Int32>(0)
    /// What would leave the terminal without an echo.
    private static let watched = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    private let descriptor: Int32

    /// Opens the terminal; nil where the process has none.
    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        if descriptor < 0 { return nil }
        Self.received.store(0, ordering: .relaxed)
    }

    /// What is typed up to the end of the line; nil where the terminal ends before.
    func password(_ question: String) -> String? {
        // Some programs start others with signals blocked.
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
            // As if it had come now: the shell sees what ended or stopped the process. After a stop it is asked again.
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

    /// The bytes of a line; nil at the end, and when a signal has come.
    private func line() -> String? {
        var (bytes, byte) = ([UInt8](), UInt8(0))
        while Self.received.load(ordering: .relaxed) == 0 {
            // A signal may come right before the wait, which it does not end then.
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

    /// Has a signal noted, and end a wait, instead of what it does by default.
    private static func take(_ number: Int32) -> sigaction {
        var (earlier, action) = (sigaction(), sigaction())
        sigaction(number, nil, &earlier)
        // What is ignored stays so: that is what nohup does.
        guard !earlier.isIgnored else { return earlier }
        let handler: @convention(c) (Int32) -> Void = { PasswordPrompt.received.store($0, ordering: .relaxed) }
        #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = handler
        #else
            action.__sigaction_handler.sa_handler = handler
        #endif
        sigaction(number, &action, nil)
        return earlier
    }
}

extension sigaction {
    /// Whether the signal has no effect.
    fileprivate var isIgnored: Bool {
        #if canImport(Darwin)
            let handler = __sigaction_u.__sa_handler
        #else
            let handler = __sigaction_handler.sa_handler
        #endif
        return handler.map { unsafeBitCast($0, to: Int.self) } == 1
    }
}

extension CredentialOptions {
    /// Asks for the password of a user who was given without one.
    mutating func askForPassword() throws(UsageError) {
        guard let name = userWithoutPassword else { return }
        guard let prompt = PasswordPrompt() else {
            throw FetchOptions.error(
                "--user has no password, and there is no terminal to ask for it: write -u - and give NAME:PASSWORD on standard "
                    + "input, or use --netrc")
        }
        guard let password = prompt.password("Password of \(name.visible()): ") else {
            throw FetchOptions.error("--user has no password: none was typed")
        }
        do { try setUser(name, password) } catch { throw FetchOptions.error("--user\(error.message)") }
    }
}
