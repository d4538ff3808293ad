import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

#if os(Linux)
    /// Runs the command with a terminal as its standard error.
    @Suite struct LiveRunningTests {
        @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"))
        func progressIsDrawnAndTheCursorRestored() async throws {
            let (directory, server, gate) = (try TemporaryDirectory(), try TestServer(), Gate())
            server.respond { _ in .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate) }
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let urls = (0..<8).map { server.url("/\u{6F22}\u{5B57}-a-rather-long-name-\($0)").absoluteString }
            let child = try ConvoyProcess(
                ["fetch", "--per-host=8", "-o", directory.url.path] + urls, errors: terminal.slave)
            try terminal.slave.close()
            // The six lines have room for three files, the count of the other files, and the total.
            let before = await terminal.read(until: " 50 %")
            #expect(before.contains(#/\u{2026} and [1-5] more/#))
            gate.open()
            let text = before + (await terminal.read())
            let ending = try await child.ended()
            #expect(ending.status == 0)
            #expect(ending.output.contains("8 files, 800.0 kB in "))
            #expect(before.contains("\u{1B}[?25l"))
            #expect(text.hasSuffix("A\u{1B}[?25h"))
            for line in text.replacing(#/\u{1B}\[[?0-9]*[A-Za-z]/#, with: "").split(whereSeparator: \.isNewline) {
                #expect(line.description.columnCount <= 49)
            }
        }

        @Test func resumedBytesAreShownAtOnce() async throws {
            let (directory, server, gate) = (try TemporaryDirectory(), try TestServer(), Gate())
            let resource = Reply.resource(generatedByteCount: 4_000_000, etag: "\"v1\"")
            server.enqueue(resource.resetting(afterBytes: 3_000_000))
            let arguments = ["fetch", "--retries=0", "-o", directory.url.path, server.url("/a").absoluteString]
            #expect(try await ConvoyProcess(arguments).ended().status == 1)
            server.respond { _ in resource.stalling(afterBodyBytes: 0, until: gate) }
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let child = try ConvoyProcess(arguments, errors: terminal.slave)
            try terminal.slave.close()
            // The percentage counts the bytes of the first run, because this run has received none.
            let before = await terminal.read(until: " 74 %")
            #expect(before.contains(" 74 %"), "\(before)")
            gate.open()
            let text = before + (await terminal.read())
            #expect(try await child.ended().status == 0)
            #expect(text.hasSuffix("\u{1B}[?25h"))
        }

        @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"))
        func finishedFilesStayAboveTheLines() async throws {
            let (directory, server, gate) = (try TemporaryDirectory(), try TestServer(), Gate())
            server.route("/whole") { _ in .status(200, body: "whole") }
            server.route("/stalls") { _ in .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate)
            }
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let urls = ["/whole", "/stalls"].map { server.url($0).absoluteString }
            let child = try ConvoyProcess(
                ["fetch", "-o", directory.url.path] + urls, output: terminal.slave, errors: terminal.slave)
            try terminal.slave.close()
            // The file `stalls` is still arriving.
            let before = await terminal.read(until: "saved whole  5 B in ")
            gate.open()
            let text = before + (await terminal.read())
            #expect(try await child.ended().status == 0)
            #expect(text.components(separatedBy: "saved whole  5 B in ").count == 2)
            #expect(text.components(separatedBy: "saved stalls  100.0 kB in ").count == 2)
            #expect(text.contains("2 files, 100.0 kB in "))
        }

        @Test func theReaderOfAPipeHasTheTerminalForItself() async throws {
            let (directory, server) = (try TemporaryDirectory(), try TestServer())
            server.respond { _ in .status(200, body: "x") }
            let (terminal, output) = (try PseudoTerminal(), Pipe())
            defer { close(terminal.master) }
            let child = try ConvoyProcess(
                ["fetch", "-o", directory.url.path, server.url("/a").absoluteString], output: output,
                errors: terminal.slave)
            try terminal.slave.close()
            try output.fileHandleForWriting.close()
            let (log, screen) = (await output.text(), await terminal.read())
            #expect(try await child.ended().status == 0)
            #expect(log.contains(#/^saved a  1 B in [^\n]*\n$/#))
            #expect(!screen.contains("\u{1B}"))
            #expect(screen.contains("1 file, 1 B in "))
        }

        @Test func anInterruptionRestoresTheCursor() async throws {
            let (directory, server, gate) = (try TemporaryDirectory(), try TestServer(), Gate())
            server.respond { _ in .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate) }
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let child = try ConvoyProcess(
                ["fetch", "-o", directory.url.path, server.url("/a").absoluteString], errors: terminal.slave)
            try terminal.slave.close()
            let before = await terminal.read(until: " 50 %")
            child.send(SIGINT)
            let text = before + (await terminal.read())
            #expect(try await child.ended().status == 130)
            #expect(text.hasSuffix("\u{1B}[?25h"))
            #expect(try directory.names() == [])
        }
    }
#endif

#if os(Linux)
    /// Runs `convoy run` with a terminal as its standard error.
    @Suite struct RunLiveTests {
        private let directory: TemporaryDirectory
        private let server: TestServer
        private let gate = Gate()

        init() throws {
            (directory, server) = (try TemporaryDirectory(), try TestServer())
            server.route("/whole") { _ in .status(200, body: "whole") }
            server.route("/stalls") { [gate] _ in
                .generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate)
            }
        }

        private func file() throws -> String {
            let file = directory.url.appending(path: "a.http")
            let text = "### whole\nGET \(server.url("/whole"))\n### stalls\nGET \(server.url("/stalls"))\n"
            try Data((text + "### next\n# @depends stalls\nGET \(server.url("/whole"))\n").utf8).write(to: file)
            return file.path
        }

        @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"))
        func runningRequestsAreDrawn() async throws {
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let child = try ConvoyProcess(["run", try file()], output: terminal.slave, errors: terminal.slave)
            try terminal.slave.close()
            let before = await terminal.read(until: " 50 %")
            #expect(before.contains("stalls"), "\(before)")
            #expect(before.contains("\u{1B}[?25l"))
            gate.open()
            let text = before + (await terminal.read())
            #expect(try await child.ended().status == 0)
            #expect(text.contains("1 of 3 "))
            #expect(text.contains("(next)"))
            #expect(text.contains("3 responses, 100.0 kB in "))
            #expect(text.components(separatedBy: "\u{1B}[?25h").count == 2)
        }

        @Test func nothingIsDrawnAmongAnswers() async throws {
            gate.open()
            let terminal = try PseudoTerminal()
            defer { close(terminal.master) }
            let child = try ConvoyProcess(
                ["run", "--show", "head", try file()], output: terminal.slave, errors: terminal.slave)
            try terminal.slave.close()
            let text = await terminal.read()
            #expect(try await child.ended().status == 0)
            #expect(!text.contains("\u{1B}[?25l"))
        }
    }
#endif

#if os(Linux)
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
