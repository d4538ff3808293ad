// The server of a benchmark: the one of `--url`, or a ConvoyTesting server in a child process.
import ArgumentParser
import Foundation

/// The server to which a benchmark sends requests.
struct ServerOptions: ParsableArguments {
    @Option(help: "The other end; without it, the ConvoyTesting server answers from a process of its own.")
    var url: String?

    /// Calls `work` with the URL and the name of a server, which runs until `work` returns.
    ///
    /// - Parameter arguments: the arguments of the ConvoyTesting server.
    func withServer<Value>(
        _ arguments: [String] = [], _ work: (_ url: URL, _ name: String) async throws -> Value
    ) async throws -> Value {
        let server = url == nil ? try ChildProcess(["serve"] + arguments) : nil
        defer { server?.end() }
        guard let text = url ?? server?.firstLine(), let target = URL(string: text) else {
            throw BenchmarkError(url == nil ? "the ConvoyTesting server did not start" : "--url is not a URL")
        }
        return try await work(target, server == nil ? text : Self.ownName)
    }

    /// The description of a server in a heading.
    static func describe(_ name: String) -> String {
        name == ownName ? "the ConvoyTesting server, which shares this machine's cores" : name
    }

    private static let ownName = "ConvoyTesting"
}
