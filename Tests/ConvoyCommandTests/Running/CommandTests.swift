import Foundation
import Testing

/// Tests that run the command, each with its own directory and server.
class CommandTests {
    let directory: TemporaryDirectory
    let server: TestServer

    init() throws { (directory, server) = (try TemporaryDirectory(), try TestServer()) }

    /// The URL of the server without a path.
    var base: String { String(url("/").dropLast()) }

    func url(_ target: String) -> String { server.url(target).absoluteString }
    func path(_ name: String) -> String { directory.file(name).path }
    func data(_ name: String) throws -> Data { try Data(contentsOf: directory.file(name)) }
    func content(_ name: String) throws -> String { try String(contentsOf: directory.file(name), encoding: .utf8) }

    /// Writes a file with the URL of the server in place of `BASE`, and returns its path.
    @discardableResult
    func write(_ text: String, to name: String) throws -> String {
        try Data(text.replacing("BASE", with: base).utf8).write(to: directory.file(name))
        return path(name)
    }

    /// Runs `convoy fetch` into the directory.
    @discardableResult
    func fetch(
        _ arguments: String..., status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await fetch(
            arguments, status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
    }

    @discardableResult
    func fetch(
        _ arguments: [String], status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await convoy(
            ["fetch", "--no-config", "-P", directory.url.path] + arguments, status: status, prints: prints,
            errors: errors, sourceLocation: sourceLocation)
    }

    /// Runs `convoy run` with a file of these requests.
    @discardableResult
    func run(
        _ requests: String, _ arguments: String..., status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await run(
            requests, arguments, status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
    }

    @discardableResult
    func run(
        _ requests: String, _ arguments: [String], status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await convoy(
            ["run", "--retries", "0", write(requests, to: "a.http")] + arguments, status: status, prints: prints,
            errors: errors, sourceLocation: sourceLocation)
    }

    /// Runs a verb of `convoy queue` with a queue in the directory.
    @discardableResult
    func queue(
        _ verb: String, _ arguments: String..., status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await convoy(
            ["queue", verb, "--db", path("jobs.db")] + arguments, status: status, prints: prints, errors: errors,
            sourceLocation: sourceLocation)
    }
}
