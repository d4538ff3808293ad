import Foundation
import Testing

@testable import ConvoyCommand

/// Tests the screen of a real terminal while a gate delays the server's responses.
@Suite(.enabled(if: TmuxTerminal.isInstalled, "tmux is not installed")) final class ScreenTests: CommandTests {
    private let gate = Gate()

    override init() throws {
        try super.init()
        server.respond { [gate] _ in .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate) }
    }

    private func terminal(_ columns: Int, _ rows: Int, _ script: String) async throws -> TmuxTerminal {
        try await TmuxTerminal(columns: columns, rows: rows, in: directory, script)
    }

    private func urls(_ count: Int) -> String {
        (0..<count).map { url("/file-\($0).iso") }.joined(separator: " ")
    }

    /// Expects that every row is narrower than the terminal, and that the percentages align.
    private func expectAligned(_ rows: [String], columns: Int, _ place: SourceLocation = #_sourceLocation) {
        #expect(rows.allSatisfy { $0.columnCount < columns }, sourceLocation: place)
        let percents = rows.compactMap { $0.firstRange(of: " % ")?.lowerBound.utf16Offset(in: $0) }
        #expect(Set(percents).count <= 1, "\(rows.joined(separator: "\n"))", sourceLocation: place)
    }

    @Test func helpIsTheSameOnATerminal() async throws {
        let terminal = try await terminal(100, 24, "$0 fetch --help")
        let rows = try await terminal.ended(status: 0)
        let lines = try await convoy("fetch", "--help").output.split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
        #expect(rows.dropLast().filter { !$0.isEmpty } == lines.filter { !$0.isEmpty })
    }

    /// On a terminal, the command neither wraps nor changes the output of `--json`.
    @Test func eventsAreTheSameOnATerminal() async throws {
        gate.open()
        let name = "a\u{AD}  b"
        let terminal = try await terminal(60, 24, "mkdir '\(name)'; $0 fetch --json -P '\(name)' \(urls(1))")
        let rows = try await terminal.ended(status: 0)
        #expect(rows.joined().contains(#""file":"a\u00ad  b/file-0.iso""#), "\(rows)")
    }

    @Test func oneFileHasOneLineAndThenItsName() async throws {
        let terminal = try await terminal(80, 24, "$0 fetch \(urls(1))")
        let rows = try await terminal.rows { $0.last?.contains(" 50 %    50.0 kB of 100.0 kB") == true }
        #expect(rows.count == 1)
        #expect(rows.first?.hasPrefix("file-0.iso ") == true)
        gate.open()
        let ended = try await terminal.ended(status: 0)
        #expect(ended.first?.hasPrefix("saved file-0.iso  100.0 kB in ") == true)
        #expect(ended.dropFirst().first?.hasPrefix("1 file, 100.0 kB in ") == true)
        #expect(ended.dropFirst(2) == ["the files are in .", "exit 0"])
    }

    @Test(arguments: [(80, 24), (120, 40), (40, 12)])
    func manyFilesHaveALineEachAndThoseOfABusyHostWait(columns: Int, rows: Int) async throws {
        let terminal = try await terminal(columns, rows, "$0 fetch \(urls(9))")
        let shown = try await terminal.rows { rows in rows.count { $0.contains(" 50 %") } == 6 && rows.count == 9 }
        expectAligned(shown, columns: columns)
        #expect(
            shown[6].hasSuffix("waiting for other files from the same host"[...].prefix(columns - 12)) || columns == 40)
        #expect(shown[7].contains("waiting for other files"))
        // The nine files have 100 kB each, of which 300 kB have arrived in total.
        #expect(shown[8].hasPrefix("0 of 9 files "))
        #expect(shown[8].contains(" 33 %"))
        #expect(shown[8].contains("300.0 kB of ~900.0 kB") == (columns > 40))
        gate.open()
        let ended = try await terminal.ended(status: 0)
        for index in 0..<9 { #expect(ended.count { $0.hasPrefix("saved file-\(index).iso  100.0 kB in") } == 1) }
        #expect(ended.contains { $0.hasPrefix("9 files, 900.0 kB in ") })
        // No live lines remain.
        #expect(!ended.contains { $0.contains(" %") || $0.contains("waiting") })
    }

    @Test func failuresStayAndAreSaidAgainAtTheEnd() async throws {
        server.route("/missing") { _ in
            .status(404, headerFields: [("Content-Type", "text/plain")], body: "no such thing\nat all")
        }
        let missing = url("/missing")
        let terminal = try await terminal(80, 24, "$0 fetch \(missing) \(urls(2))")
        let shown = try await terminal.rows { rows in rows.count { $0.contains(" 50 %") } == 3 }
        #expect(shown.first == "convoy: \(missing): 404 Not Found")
        // The prefix is red on a terminal with colours.
        #expect(try await terminal.rows(coloured: true).first?.hasPrefix("\u{1B}[31mconvoy:\u{1B}[39m ") == true)
        expectAligned(shown, columns: 80)
        #expect(shown.dropLast().last?.hasPrefix("1 of 3 files ") == true)
        #expect(shown.last == "1 failed")
        gate.open()
        let ended = try await terminal.ended(status: 1)
        let end = ended.joined(separator: "\n").replacing("\n  ", with: " ")
        #expect(end.contains(", 1 failed (1 unacceptable status); exit status 1\n"))
        #expect(end.contains("\nfailed: \(missing): 404 Not Found\nthe files are in .\n"))
        #expect(end.contains("\nthe same command tries them again; --existing skip skips complete files\n"))
    }

    @Test func headsSteerNoTerminal() async throws {
        server.route("/head") { _ in .raw("HTTP/1.1 200 OK\r\nX-A: a\u{1B}[31mb\r\nContent-Length: 0\r\n\r\n") }
        let terminal = try await terminal(80, 24, "$0 -I \(url("/head"))")
        _ = try await terminal.ended(status: 0)
        let rows = try await terminal.rows(coloured: true)
        #expect(rows.contains("X-A: a?[31mb"), "\(rows)")
    }

    @Test func noColorTurnsColoursOff() async throws {
        server.route("/missing") { _ in .status(404) }
        let terminal = try await terminal(80, 24, "NO_COLOR=1 $0 fetch \(url("/missing"))")
        _ = try await terminal.ended(status: 1)
        #expect(try await terminal.rows(coloured: true).first == "convoy: \(url("/missing")): 404 Not Found")
    }

    @Test func aRetryIsCountedDownInTheLineOfItsFile() async throws {
        server.respond { _ in
            .status(503, headerFields: [("Retry-After", "50")], body: String(repeating: "x", count: 20_000))
        }
        let terminal = try await terminal(80, 24, "$0 fetch \(urls(2))")
        let shown = try await terminal.rows { rows in rows.count { $0.contains(" attempt 2 of 4 in ") } == 2 }
        for row in shown.prefix(2) {
            #expect(row.contains(#/^file-[01]\.iso  +503 Service Unavailable; attempt 2 of 4 in [0-9.]+ s$/#))
        }
        // The body of an error response does not count as a part of a file.
        #expect(shown.count == 3)
        #expect(shown.last?.contains("  0 %") == true)
        #expect(shown.last?.contains(" kB") == false)
        try await terminal.press("C-c")
        #expect(try await terminal.ended(status: 130).contains { $0.hasPrefix("interrupted: 0 files") })
    }

    @Test func segmentsOfAFileAreOneLine() async throws {
        let resource = Reply.resource(generatedByteCount: 8_000_000, etag: "\"v1\"")
        server.respond { [gate] _ in resource.stalling(afterBodyBytes: 1_000_000, until: gate) }
        let terminal = try await terminal(120, 40, "$0 fetch --segments 4 \(urls(1))")
        let shown = try await terminal.rows {
            $0.first?.contains(#/ [1-9][0-9] %       [1-4]\.0 MB of 8\.0 MB/#) == true
        }
        #expect(shown.count == 1)
        gate.open()
        #expect(try await terminal.ended(status: 0).first?.hasPrefix("saved file-0.iso  8.0 MB in ") == true)
    }

    @Test(arguments: [(40, 12), (40, 24), (120, 40), (60, 24)])
    func aWindowOfAnotherSizeKeepsNothingOfTheOldPicture(columns: Int, rows: Int) async throws {
        let terminal = try await terminal(80, 24, "$0 fetch \(urls(4))")
        _ = try await terminal.rows { rows in rows.count { $0.contains(" 50 %") } == 5 }
        try await terminal.resize(columns: columns, rows: rows)
        let shown = try await terminal.rows { rows in
            rows.count == 5 && rows.allSatisfy { $0.contains(" 50 %") && ($0.columnCount > 60) == (columns > 60) }
        }
        expectAligned(shown, columns: columns)
        gate.open()
        // When the terminal wraps lines again, it moves rows into its history. The command cannot change those rows.
        _ = try await terminal.ended(status: 0)
        let ended = try await terminal.rows()
        #expect(!ended.contains { $0.contains(" %") })
        #expect(ended.count { $0.hasPrefix("saved file-") } == 4)
    }

    @Test func anInterruptionLeavesTheSummaryOnTheScreen() async throws {
        let resource = Reply.resource(generatedByteCount: 8_000_000, etag: "\"v1\"")
        server.respond { [gate] _ in resource.stalling(afterBodyBytes: 2_000_000, until: gate) }
        let terminal = try await terminal(80, 24, "$0 fetch \(urls(2))")
        _ = try await terminal.rows { $0.last?.contains(" 25 % ") == true }
        try await terminal.press("C-c")
        let ended = try await terminal.ended(status: 130)
        #expect(ended.contains { $0.hasPrefix("interrupted: 0 files, 0 B in ") })
        #expect(ended.contains("2 files are kept in part, 4.0 MB; the same command continues them"))
        #expect(!ended.contains { $0.contains(" %") })
    }

    @Test func moreFilesThanRowsStayEachWithItsName() async throws {
        server.respond { _ in .status(200, body: "x") }
        let terminal = try await terminal(80, 10, "$0 fetch \(urls(40))")
        let ended = try await terminal.ended(status: 0)
        for index in 0..<40 { #expect(ended.count { $0.hasPrefix("saved file-\(index).iso  1 B in ") } == 1) }
        #expect(ended.count == 43, "\(ended)")
    }
}

/// A real terminal, tmux, that runs the command.
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
            "env -u NO_COLOR SWIFT_BACKTRACE=enable=no sh -c " + script.shellQuoted, ";", "set", "-g", "status", "off"
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

    func ended(status: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws -> [String] {
        _ = try await rows(until: { $0.contains { $0.hasPrefix("exit ") } }, sourceLocation: sourceLocation)
        let rows = try await rows(scrolled: true)
        #expect(rows.last == "exit \(status)", sourceLocation: sourceLocation)
        return rows
    }

    func resize(columns: Int, rows: Int) async throws {
        _ = try await tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
    }

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

    private static func command(_ words: [String]) -> String {
        words.map(\.shellQuoted).joined(separator: " ") + " 2>&1"
    }

    /// Uses `popen`, because `Process` would wait until tmux's server closes the pipe that it inherits.
    private static func output(of command: String) -> (String, Int32) {
        guard let stream = popen(command, "re") else { return ("", -1) }
        var (bytes, block) = ([UInt8](), [UInt8](repeating: 0, count: 4_096))
        while case let count = fread(&block, 1, block.count, stream), count > 0 { bytes += block.prefix(count) }
        return (String(decoding: bytes, as: UTF8.self), pclose(stream))
    }
}
