// The hidden subcommand that runs a server if `--url` is missing.
import ArgumentParser
import ConvoyTesting
import Foundation

/// Runs a ConvoyTesting server and prints its URL; ends when standard input ends.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Runs the ConvoyTesting server.", shouldDisplay: false)

    @Option(help: "The size of each body.")
    var bodyBytes = 1_024

    @Flag(help: "Make the body while it is sent, so that its size costs no memory.")
    var generated = false

    func run() async throws {
        // Uploaded bodies are read and discarded.
        let server = try TestServer(recording: .none, bodyLimitBytes: 0)
        let reply: Reply =
            generated
            ? .generated(byteCount: Int64(bodyBytes)) : .body(Data(repeating: 0x78, count: bodyBytes))
        server.respond { _ in reply }
        write(server.url("/").absoluteString + "\n", to: .output)
        ChildProcess.endWithParent()
        while true { try await Task.sleep(for: .seconds(3_600)) }
    }
}
