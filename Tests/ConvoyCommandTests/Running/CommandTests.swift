import Foundation
import Testing

/// Tests that run the command, each with its own directory and server.
class CommandTests {
    let directory: TemporaryDirectory
    let server: TestServer

    init(in directory: TemporaryDirectory) throws { (self.directory, server) = (directory, try TestServer()) }
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

    /// `convoy fetch` into the directory.
    var fetch: Invocation { Invocation(["fetch", "--no-config", "-P", directory.url.path]) }
    /// `convoy queue` with a queue in the directory.
    var queue: Invocation { Invocation(["queue"], last: ["--db", path("jobs.db")]) }

    /// `convoy run` with a file of these requests.
    func run(_ requests: String) throws -> Invocation {
        Invocation(["run", "--retries", "0", try write(requests, to: "a.http")])
    }
}
