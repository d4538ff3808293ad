import Foundation
import Testing

@testable import ConvoyCommand

#if os(Linux)
    @Suite final class LiveRunningTests: CommandTests {
        private let gate = Gate()
        private let terminal: PseudoTerminal

        override init() throws {
            terminal = try PseudoTerminal()
            try super.init()
            server.respond { [gate] _ in .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate) }
            server.route("/whole") { _ in .status(200, body: "whole") }
        }

        deinit { close(terminal.master) }

        /// Starts the command, whose standard output is a file by default.
        private func start(_ arguments: [String], output: Any? = nil) throws -> ConvoyProcess {
            let child = try ConvoyProcess(arguments, output: output, errors: terminal.slave)
            try terminal.slave.close()
            return child
        }

        private func startFetch(_ arguments: [String], output: Any? = nil) throws -> ConvoyProcess {
            try start(["fetch", "-o", directory.url.path] + arguments, output: output)
        }

        @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"))
        func progressIsDrawnAndTheCursorRestored() async throws {
            let urls = (0..<8).map { url("/\u{6F22}\u{5B57}-a-rather-long-name-\($0)") }
            let child = try startFetch(["--per-host=8"] + urls)
            // The six lines have room for three files, the count of the other files, and the total.
            let before = await terminal.read(until: " 50 %")
            #expect(before.contains(#/\u{2026} and [1-5] more/#))
            gate.open()
            let text = before + (await terminal.read())
            try await child.ended(status: 0, prints: "8 files, 800.0 kB in ")
            #expect(before.contains("\u{1B}[?25l"))
            #expect(text.hasSuffix("A\u{1B}[?25h"))
            for line in text.replacing(#/\u{1B}\[[?0-9]*[A-Za-z]/#, with: "").split(whereSeparator: \.isNewline) {
                #expect(line.description.columnCount <= 49)
            }
        }

        @Test func resumedBytesAreShownAtOnce() async throws {
            let resource = Reply.resource(generatedByteCount: 4_000_000, etag: "\"v1\"")
            server.enqueue(resource.resetting(afterBytes: 3_000_000))
            try await fetch("--retries=0", url("/a"), status: 1)
            server.respond { [gate] _ in resource.stalling(afterBodyBytes: 0, until: gate) }
            let child = try startFetch(["--retries=0", url("/a")])
            // The percentage counts the bytes of the first run, because this run has received none.
            let before = await terminal.read(until: " 74 %")
            #expect(before.contains(" 74 %"), "\(before)")
            gate.open()
            let text = before + (await terminal.read())
            try await child.ended(status: 0)
            #expect(text.hasSuffix("\u{1B}[?25h"))
        }

        @Test func theReaderOfAPipeHasTheTerminalForItself() async throws {
            let output = Pipe()
            let child = try startFetch([url("/whole")], output: output)
            try output.fileHandleForWriting.close()
            let (log, screen) = (await output.text(), await terminal.read())
            try await child.ended(status: 0)
            #expect(log.contains(#/^saved whole  5 B in [^\n]*\n$/#))
            #expect(!screen.contains("\u{1B}"))
            #expect(screen.contains("1 file, 5 B in "))
        }

        @Test func anInterruptionRestoresTheCursor() async throws {
            let child = try startFetch([url("/a")])
            let before = await terminal.read(until: " 50 %")
            child.send(SIGINT)
            let text = before + (await terminal.read())
            try await child.ended(status: 130)
            #expect(text.hasSuffix("\u{1B}[?25h"))
            #expect(try directory.names() == [])
        }

        /// Two requests at the same time, and one that depends on the second.
        private var requests: String {
            "### whole\nGET BASE/whole\n### stalls\nGET BASE/stalls\n### next\n# @depends stalls\nGET BASE/whole\n"
        }

        @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"))
        func runningRequestsAreDrawn() async throws {
            let child = try start(["run", write(requests, to: "a.http")], output: terminal.slave)
            let before = await terminal.read(until: " 50 %")
            #expect(before.contains("stalls"), "\(before)")
            #expect(before.contains("\u{1B}[?25l"))
            gate.open()
            let text = before + (await terminal.read())
            try await child.ended(status: 0)
            #expect(text.contains("1 of 3 "))
            #expect(text.contains("(next)"))
            #expect(text.contains("3 responses, 100.0 kB in "))
            #expect(text.components(separatedBy: "\u{1B}[?25h").count == 2)
        }

        @Test func nothingIsDrawnAmongAnswers() async throws {
            gate.open()
            let child = try start(
                ["run", "--show", "head", write(requests, to: "a.http")], output: terminal.slave)
            let text = await terminal.read()
            try await child.ended(status: 0)
            #expect(!text.contains("\u{1B}[?25l"))
        }
    }

    /// A terminal of 50 columns by 6 lines.
    struct PseudoTerminal {
        let master: Int32
        let slave: FileHandle

        init() throws {
            master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
            try #require(master >= 0)
            // On Linux, TIOCSPTLCK unlocks the other end and TIOCGPTN returns its number. The module of Glibc
            // declares neither.
            var (lock, number) = (Int32(0), UInt32(0))
            try #require(ioctl(master, 0x4004_5431, &lock) == 0 && ioctl(master, 0x8004_5430, &number) == 0)
            let descriptor = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
            try #require(descriptor >= 0)
            var size = winsize(ws_row: 6, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0)
            try #require(ioctl(descriptor, UInt(TIOCSWINSZ), &size) == 0)
            slave = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }

        func read(until text: String? = nil) async -> String {
            await ConvoyProcess.text(from: master, until: text)
        }
    }
#endif
