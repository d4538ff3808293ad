import Foundation
import Testing

@testable import Convoy

/// Tests on which executor the end of a download runs.
@Suite(.timeLimit(.minutes(2))) struct DownloadEndingTests {
    private static let memory = URL(filePath: "/dev/shm", directoryHint: .isDirectory)
    private static let hasMemory = FileManager.default.isWritableFile(atPath: memory.path)

    /// A download whose body is complete and verified.
    private func received(in directory: TemporaryDirectory) async throws -> (Download, PreparedRequest, ResponseHead) {
        let download = Download(DownloadPlan(target: .file(directory.file("target"))))
        let request = try PreparedRequest(Request<Data>.stub("file").core, baseURL: nil)
        let result = await withCheckedContinuation { continuation in
            download.begin(request, asksForWhole: false) { continuation.resume(returning: $0) }
        }
        _ = try result.get()
        let head = ResponseHead(statusCode: 200, headerFields: ["ETag": "\"v1\""])
        try download.executor.run {
            try download.beginBody(.body(from: 0, totalBytes: 4), head, of: request)
            try download.write(Data("body".utf8))
            try download.verify()
        }
        return (download, request, head)
    }

    /// Nothing waits for a disk, so the file is renamed and reported before `commit` returns.
    @Test(.enabled(if: hasMemory, "there is no file system in memory"))
    func aFileInMemoryEndsInOneStep() async throws {
        let directory = try TemporaryDirectory(in: Self.memory)
        let (download, request, head) = try await received(in: directory)
        let (ended, returned) = (EventLog<Result<URL, RequestError>>(), EventLog<Int>())
        try download.executor.run {
            download.commit(head, of: request) { ended.record($0) }
            returned.record(ended.count)
        }
        #expect(returned.events == [1])
        #expect(ended.events.map { try? $0.get() } == [directory.file("target")])
        #expect(try directory.entries == ["target"])
    }

    /// The executor is blocked, so nothing may wait for it.
    @Test func theEndOfASynchronisedFileNeedsNoExecutor() async throws {
        let directory = try TemporaryDirectory.besideProducts()
        let (download, request, head) = try await received(in: directory)
        let (ended, gate) = (EventLog<Result<URL, RequestError>>(), DispatchSemaphore(value: 0))
        download.executor.async {
            download.commit(head, of: request) { ended.record($0) }
            gate.wait()
        }
        let results = await ended.wait(within: .seconds(30))
        gate.signal()
        #expect(results.map { try? $0.get() } == [directory.file("target")])
        #expect(try directory.entries == ["target"])
    }

    /// The part is deleted before its end, so the rename fails.
    @Test func aFailedRenameIsReported() async throws {
        let directory = try TemporaryDirectory.besideProducts()
        let (download, request, head) = try await received(in: directory)
        try FileManager.default.removeItem(at: directory.file(".target.convoy-part"))
        let ended = EventLog<Result<URL, RequestError>>()
        download.executor.async { download.commit(head, of: request) { ended.record($0) } }
        #expect(await ended.wait().map(\.code) == [.destinationUnwritable])
        #expect(try directory.entries == [])
    }
}
