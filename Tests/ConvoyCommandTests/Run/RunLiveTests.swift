import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

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
