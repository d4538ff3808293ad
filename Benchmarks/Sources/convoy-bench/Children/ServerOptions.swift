// The server of a benchmark: one that is named, or one of its own.
import ArgumentParser
import Foundation

/// The server that a benchmark talks to.
struct ServerOptions: ParsableArguments {
    @Option(help: "The other end; without it, the ConvoyTesting server answers from a process of its own.")
    var url: String?

    /// Calls with the URL and the name of a server that runs meanwhile.
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

    /// The heading for a server of that name.
    static func describe(_ name: String) -> String {
        name == ownName ? "the ConvoyTesting server, which shares this machine's cores" : name
    }

    private static let ownName = "ConvoyTesting"
}
