// A sync that runs every night. It keeps complete files, fetches missing ones and resumes partial downloads.
import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Fetches the files of a list that a directory does not have yet.
final class NightlySync {
    private let manager: RequestManager
    private let directory: URL

    init(into directory: URL, _ configuration: RequestManager.Configuration) {
        self.directory = directory
        manager = RequestManager(configuration: configuration)
    }

    /// Starts the batch.
    ///
    /// A request is created when a slot is free, so 5,000 files work the same way.
    func start(_ files: [URL]) -> Batch<URL> {
        let directory = directory
        return manager.batch(count: files.count) { index in
            let file = directory.appending(path: files[index].lastPathComponent)
            return Request<Data>.get(files[index]).saved(to: file, existing: .skip)
        }
    }

    func cancel() async {
        manager.cancelAll()
        await manager.drain()
    }
}

@Suite(.timeLimit(.minutes(2))) struct NightlySyncExampleTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
    // At most six requests run for each host, and the manager retries requests that get a 503. A jitter of 0 makes the
    // delay of a retry zero.
    private let configuration = RequestManager.Configuration(
        maxConcurrentOperationCount: 24, maxConcurrentPerHost: 6, retries: .standard, jitter: { 0 })
    private let sizes = (0..<60).map { Int64(20_000 + 1_000 * $0) }

    @Test func theSecondRunFetchesTheMissingBytes() async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Each of two hosts has thirty files. Six transfers of the second host stall in the middle.
        let (servers, gate, stuck) = ([try TestServer(), try TestServer()], Gate(), 40..<46)
        var files: [URL] = []
        for (index, size) in sizes.enumerated() {
            let whole = Reply.resource(generatedByteCount: size, etag: "\"\(index)\"")
            let reply = stuck.contains(index) ? whole.stalling(afterBodyBytes: size / 2, until: gate) : whole
            servers[index / 30].route("/\(index)") { _ in reply }
            files.append(servers[index / 30].url("/\(index)"))
        }
        servers[0].enqueue([.status(503), .status(503), .status(503)])

        let sync = NightlySync(into: directory, configuration)
        let evening = sync.start(files)
        let bytes = sizes[..<40].reduce(0, +) + sizes[stuck].reduce(0) { $0 + $1 / 2 }
        for await progress in evening.progress
        where progress.finishedCount == 40 && progress.download.completedBytes == bytes { break }
        // The first host is finished: 30 files and three retries. The second host has finished ten requests. Six more
        // stall, so it gets no further requests.
        #expect(servers.map(\.requestCount) == [33, 16])
        // A test cannot kill its own process, so it cancels instead. A kill would keep nothing of parts below 1 MiB.
        await sync.cancel()
        #expect(await evening.results.filter { (try? $0.get()) != nil }.count == 40)

        // The new manager shares only the directory with the first one.
        gate.open()
        let morning = await NightlySync(into: directory, configuration).start(files).results
        #expect(morning.allSatisfy { (try? $0.get()) != nil })
        let asked = servers[1].recordedRequests.dropFirst(16).map { "\($0.path) \($0.value(of: "Range") ?? "whole")" }
        let missing = (40..<60).map { "/\($0) " + (stuck.contains($0) ? "bytes=\(sizes[$0] / 2)-" : "whole") }
        #expect(asked.sorted() == missing.sorted())
        #expect(servers[0].requestCount == 33)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).count == 60)
        for (index, size) in sizes.enumerated() {
            let file = directory.appending(path: "\(index)")
            #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<size))
        }
    }
}
