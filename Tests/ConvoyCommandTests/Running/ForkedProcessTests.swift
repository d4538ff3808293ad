import ConvoyTesting
import Foundation
import Testing

/// Compares processes of a fork server with new ones.
@Suite struct ForkedProcessTests {
    /// The last two lists exceed the limits of the fork server, so new processes start instead.
    @Test(arguments: [
        (["--version"], true), (["fetch", "--nonsense", "ü \n"], true), (["help", "list"], true), ([""], true),
        ([], true), (["fetch", "--" + String(repeating: "x", count: 120_000)], false),
        (Array(repeating: "x", count: 2_000), false),
    ])
    func outputAndStatusAreThoseOfANewProcess(arguments: [String], isForked: Bool) async throws {
        let process = try ConvoyProcess(arguments)
        #expect(process.isForked == (isForked && PreloadedLibrary.isPossible))
        let forked = try await process.ended()
        let new = try await ConvoyProcess(under: "/usr/bin/env", [], arguments).ended()
        #expect(!new.output.isEmpty || !new.errors.isEmpty)
        #expect(forked.status == new.status)
        #expect(forked.output == new.output)
        #expect(forked.errors == new.errors)
    }

    @Test func variablesAndDirectoryAreThoseThatItIsGiven() async throws {
        let (directory, server) = (try TemporaryDirectory(), try TestServer())
        server.respond { _ in .status(200, body: "a") }
        try Data("machine 127.0.0.1 login me password pw\n".utf8).write(to: directory.file(".netrc"))
        let arguments = ["--no-config", "--netrc", "-o", "here", server.url("/").absoluteString]
        for (home, field) in [(directory.url.path, "Basic bWU6cHc="), (nil, nil)] {
            let ending = try await ConvoyProcess(nil, arguments, in: directory.url, variables: ["HOME": home]).ended()
            #expect(ending.status == 0, "\(ending.errors)")
            #expect(try await server.takeRequest().value(of: "Authorization") == field)
        }
        #expect(try String(contentsOf: directory.file("here"), encoding: .utf8) == "a")
    }

    @Test func aSignalIsItsEnd() async throws {
        let (gate, server) = (Gate(), try TestServer())
        server.respond { _ in .status(200).stalling(until: gate) }
        let process = try ConvoyProcess(["--no-config", "-o", "-", server.url("/").absoluteString])
        try await gate.reached()
        process.send(SIGKILL)
        let ending = try await process.ended(mayBeKilled: true)
        #expect(ending.isSignalled && ending.status == SIGKILL)
        gate.open()
    }
}
