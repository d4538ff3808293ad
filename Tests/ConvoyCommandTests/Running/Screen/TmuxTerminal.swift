import Foundation
import Testing

/// A real terminal, tmux, in which the command runs; what is on its screen can be read.
final class TmuxTerminal {
    static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/tmux")
    private static let boundSeconds = 60

    private let directory: TestDirectory
    private var socket: String { directory.url.appending(path: "socket").path }

    /// Starts the command; when it ends, its exit status is on the screen, and the terminal stays for a while.
    ///
    /// - Parameter script: in it `$0` is the command; its working directory is `directory`.
    init(columns: Int, rows: Int, in directory: TestDirectory, _ script: String) async throws {
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

    /// The rows of the screen without blanks at their ends, empty rows at the bottom left out.
    ///
    /// - Parameters:
    ///   - scrolled: whether the rows that have gone off the top are among them.
    ///   - coloured: whether colours are in them, as escape sequences.
    func rows(scrolled: Bool = false, coloured: Bool = false) async throws -> [String] {
        let text = try await tmux(["capture-pane", "-p"] + (scrolled ? ["-S", "-"] : []) + (coloured ? ["-e"] : []))
        var rows = text.split(separator: "\n", omittingEmptySubsequences: false).map { row in
            String(row.reversed().drop { $0 == " " }.reversed())
        }
        while rows.last?.isEmpty == true { rows.removeLast() }
        return rows
    }

    /// The rows as soon as they are what is waited for; what they were in the end, with an issue, when that takes too long.
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

    /// The rows when the command has ended.
    func ended(status: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws -> [String] {
        _ = try await rows(until: { $0.contains { $0.hasPrefix("exit ") } }, sourceLocation: sourceLocation)
        let rows = try await rows(scrolled: true)
        #expect(rows.last == "exit \(status)", sourceLocation: sourceLocation)
        return rows
    }

    func resize(columns: Int, rows: Int) async throws {
        _ = try await tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
    }

    /// Presses keys, by the names tmux has for them.
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

    /// Not by `Process`, which waits for the server too: it inherits what tells of the end.
    private static func output(of command: String) -> (String, Int32) {
        guard let stream = popen(command, "re") else { return ("", -1) }
        var (bytes, block) = ([UInt8](), [UInt8](repeating: 0, count: 4_096))
        while case let count = fread(&block, 1, block.count, stream), count > 0 { bytes += block.prefix(count) }
        return (String(decoding: bytes, as: UTF8.self), pclose(stream))
    }

    private static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: #"'\''"#) + "'" }
}
