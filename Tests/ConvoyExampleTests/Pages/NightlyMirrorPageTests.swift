// The program of the page "Tutorial: a nightly mirror", against a server.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite(.timeLimit(.minutes(2))) struct NightlyMirrorPageTests {
    func makeConfiguration() -> RequestManager.Configuration {
        var configuration = RequestManager.Configuration()
        configuration.maxConcurrentPerHost = 4
        configuration.retries = RetryPolicy(maxRetries: 5)
        configuration.breaker = BreakerPolicy(failuresInARow: 10)
        return configuration
    }

    func mirror(
        _ urls: [URL], into directory: URL, by manager: RequestManager
    ) async -> [String] {
        let batch = manager.batch(count: urls.count) { index in
            let url = urls[index]
            return Request<Data>.get(url)
                .saved(
                    to: directory.appending(path: url.lastPathComponent),
                    existing: .updateIfChanged
                )
                .minimumSpeed(bytesPerSecond: 1_000, over: .seconds(60))
        }
        var failures: [String] = []
        for (url, result) in zip(urls, await batch.results) {
            if case .failure(let error) = result {
                failures.append("\(url.absoluteString): \(error.message)")
            }
        }
        return failures
    }

    func run(
        _ arguments: [String], by manager: RequestManager
    ) async throws -> Int32 {
        guard arguments.count == 3 else {
            print("usage: mirror LIST DIRECTORY")
            return 2
        }
        let list = try String(contentsOfFile: arguments[1], encoding: .utf8)
        let urls = list.split(separator: "\n").compactMap { line in
            URL(string: String(line))
        }
        let directory = URL(fileURLWithPath: arguments[2])
        let failures = await mirror(urls, into: directory, by: manager)
        for failure in failures { print(failure) }
        return failures.isEmpty ? 0 : 1
    }

    /// This code is only compiled, because it ends the process.
    private func start() async throws {
        let manager = RequestManager(configuration: makeConfiguration())
        exit(try await run(CommandLine.arguments, by: manager))
    }

    private let server: TestServer
    private let place = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
    private let byteCount: Int64 = 3_000_000

    init() throws {
        server = try TestServer()
        try FileManager.default.createDirectory(
            at: place.appending(path: "files"), withIntermediateDirectories: true)
    }

    private func arguments(_ paths: [String]) throws -> [String] {
        let list = place.appending(path: "urls.txt")
        try paths.map { server.url($0).absoluteString + "\n" }.joined().write(
            to: list, atomically: true, encoding: .utf8)
        return ["mirror", list.path, place.appending(path: "files").path]
    }

    private func makeManager() -> RequestManager {
        var configuration = makeConfiguration()
        configuration.jitter = { 0 }
        return RequestManager(configuration: configuration)
    }

    @Test func aNightThatWasInterruptedIsContinuedByTheNext() async throws {
        defer {
            server.shutDown()
            try? FileManager.default.removeItem(at: place)
        }
        let gate = Gate()
        let reply = Reply.resource(generatedByteCount: byteCount, etag: "\"v1\"")
        server.enqueue(reply.stalling(afterBodyBytes: 2_000_000, until: gate))
        server.route("/image.iso") { _ in reply }
        let arguments = try arguments(["/image.iso"])
        let first = makeManager()
        async let night = run(arguments, by: first)
        try await gate.reached()
        // Waits until the part contains all bytes that the server sends before the gate.
        let part = place.appending(path: "files/.image.iso.convoy-part")
        while (try? Data(contentsOf: part).count) != 2_000_000 { await Task.yield() }
        first.cancelAll()
        #expect(try await night == 1)
        await first.drain()

        #expect(try await run(arguments, by: makeManager()) == 0)
        #expect(server.recordedRequests.map { $0.value(of: "Range") } == [nil, "bytes=2000000-"])
        let file = place.appending(path: "files/image.iso")
        #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<byteCount))
    }

    @Test func aFailureIsReportedAndTheOthersArrive() async throws {
        defer {
            server.shutDown()
            try? FileManager.default.removeItem(at: place)
        }
        server.route("/a.txt") { _ in .status(200, body: "a") }
        server.route("/gone.txt") { _ in .status(404) }
        #expect(try await run(try arguments(["/gone.txt", "/a.txt"]), by: makeManager()) == 1)
        #expect(try String(contentsOf: place.appending(path: "files/a.txt"), encoding: .utf8) == "a")
        #expect(try await run(["mirror"], by: makeManager()) == 2)
    }
}
