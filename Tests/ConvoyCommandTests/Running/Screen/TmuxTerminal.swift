import Foundation
import Testing

/// A real terminal, tmux, that runs the command.
///
/// Tests read its screen.
final class TmuxTerminal {
    static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/tmux")
    private static let boundSeconds = 60

    private let directory: TemporaryDirectory
    private var socket: String { directory.url.appending(path: "socket").path }

    /// Starts the command.
    ///
    /// When the command has ended, the screen shows its exit status. The terminal stays open for `boundSeconds`.
    ///
    /// - Parameter script: A shell script, in which `$0` is the command. Its working directory is `directory`.
    init(columns: Int, rows: Int, in directory: TemporaryDirectory, _ script: String) async throws {
        self.directory = directory
        let shell = """
            trap : INT; cd '\(directory.url.path)'; \(script); echo "exit $?"; exec sleep \(Self.boundSeconds)
            """
        let script = shell.replacing("$0", with: "'\(try ConvoyProcess.executable().path)'")
        _ = try await tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", "\(columns)", "-y", "\(rows)",
            "env -u NO_COLOR SWIFT_BACKTRACE=enable=no sh -c " + Self.quoted(script), ";", "set", "-g", "status", "off"
        )
    }

    deinit {
        _ = Self.output(of: Self.command(["tmux", "-S", socket, "kill-server"]))
    }

    /// Returns the rows of the screen, without trailing blanks and without empty rows at the bottom.
    ///
    /// - Parameters:
    ///   - scrolled: Whether the result includes rows that scrolled off the top.
    ///   - coloured: Whether the result includes colours as escape sequences.
    func rows(scrolled: Bool = false, coloured: Bool = false) async throws -> [String] {
        let text = try await tmux(["capture-pane", "-p"] + (scrolled ? ["-S", "-"] : []) + (coloured ? ["-e"] : []))
        var rows = text.split(separator: "\n", omittingEmptySubsequences: false).map { row in
            String(row.reversed().drop { $0 == " " }.reversed())
        }
        while rows.last?.isEmpty == true { rows.removeLast() }
        return rows
    }

    /// Waits until the rows have the expected form.
    ///
    /// After `boundSeconds`, the function records an issue and returns the current rows.
    func rows(
        until isMeant: ([String]) -> Bool, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let end = ContinuousClock.now + .seconds(Self.boundSeconds)
        while true {
            let rows = try await rows()
            if isMeant(rows) { return rows }
            guard .now < end else {
                Issue.record(
                    "the screen did not become what was expected:\n\(rows.joined(separator: "\n"))",
                    sourceLocation: sourceLocation)
                return rows
            }
            await withCheckedContinuation { continuation in
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20)) { continuation.resume() }
            }
        }
    }

    /// Returns the rows after the command has ended.
    func ended(status: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws -> [String] {
        _ = try await rows(until: { $0.contains { $0.hasPrefix("exit ") } }, sourceLocation: sourceLocation)
        let rows = try await rows(scrolled: true)
        #expect(rows.last == "exit \(status)", sourceLocation: sourceLocation)
        return rows
    }

    func resize(columns: Int, rows: Int) async throws {
        _ = try await tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
    }

    /// Presses keys, which have tmux's names.
    func press(_ keys: String) async throws { _ = try await tmux("send-keys", keys) }

    private func tmux(_ arguments: String...) async throws -> String { try await tmux(arguments) }

    private func tmux(_ arguments: [String]) async throws -> String {
        let command = Self.command(["tmux", "-S", socket] + arguments)
        let (output, status) = await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: Self.output(of: command)) }
        }
        try #require(status == 0, "\(command): \(output)")
        return output
    }

    private static func command(_ words: [String]) -> String { words.map(quoted).joined(separator: " ") + " 2>&1" }

    /// Uses `popen`, because `Process` would also wait for tmux's server.
    ///
    /// `Process` waits until a pipe is closed, and tmux's server inherits that pipe.
    private static func output(of command: String) -> (String, Int32) {
        guard let stream = popen(command, "re") else { return ("", -1) }
        var (bytes, block) = ([UInt8](), [UInt8](repeating: 0, count: 4_096))
        while case let count = fread(&block, 1, block.count, stream), count > 0 { bytes += block.prefix(count) }
        return (String(decoding: bytes, as: UTF8.self), pclose(stream))
    }

    private static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: #"'\''"#) + "'" }
}
