// The rate of small requests over https.
import ArgumentParser

/// `https`: `requests` with other defaults.
struct HTTPSCommand: AsyncParsableCommand {
    private static let defaults = [
        "--http", "1.1,2", "--concurrency", "1,6,32",
        "--subjects", "convoy-send,convoy,async-http-client-async,async-http-client",
    ]

    static let configuration = CommandConfiguration(
        commandName: "https", abstract: "Small requests over https, with HTTP/1.1 and HTTP/2.",
        discussion: """
            The same as `requests \(defaults.joined(separator: " "))`. Needs --url, and --cacert for a certificate that the \
            system does not trust. Benchmarks/https-server runs a server.
            """)

    @Argument(parsing: .allUnrecognized, help: "Options of `requests`.")
    var options: [String] = []

    func run() async throws { try await RequestsCommand.parse(Self.defaults + options).run() }
}
