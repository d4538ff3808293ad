import Foundation
import Testing

@testable import Convoy

/// Tests which parts and records a download reads when it begins or continues.
@Suite struct DownloadTests {
    private let directory: TemporaryDirectory
    private static let version = FileVersion(FileVersion.seeded(1, byteCount: 300_000))

    init() throws { directory = try TemporaryDirectory() }

    private func leavePart(_ plan: DownloadPlan, redirectingTo location: String? = nil) async throws {
        let server = StubServer { exchange in
            if let location, exchange.request.url.path == "/file" {
                return exchange.answer(302, headerFields: ["Location": location])
            }
            Self.version.answer(exchange, sending: 100_000, thenFailing: .cut)
        }
        let sending = Sending(Request.stub("file").saved(plan), over: server.transport)
        #expect(try await sending.error().code == .connectionLost)
    }

    /// Begins an attempt; returns the number of stored bytes that the attempt continues.
    private func begin(_ download: Download, _ name: String) async throws -> Int64? {
        let request = try PreparedRequest(Request.stub(name).core, baseURL: nil)
        let beginning = await withCheckedContinuation { continuation in
            download.begin(request, asksForWhole: false) { continuation.resume(returning: $0) }
        }
        guard case .send(_, let point) = try beginning.get() else { return nil }
        return point?.byteCount
    }

    /// A download that has released its part opens the part again after a redirect.
    @Test(arguments: [true, false]) func aReleasedPartIsFoundAfterARedirect(isNamedByServer: Bool) async throws {
        let target: DownloadPlan.Target =
            isNamedByServer ? .directory(directory.url) : .file(directory.file("target"))
        try await leavePart(DownloadPlan(target: target), redirectingTo: "/elsewhere")
        let names = try directory.entries
        #expect(names.count == 2)
        let download = Download(DownloadPlan(target: target))
        // The range belongs to the redirect's target, so the redirecting URL gets no range request.
        #expect(try await begin(download, "file") == nil)
        await withCheckedContinuation { continuation in download.release { continuation.resume() } }
        #expect(try await begin(download, "elsewhere") == 100_000)
        await withCheckedContinuation { continuation in download.close { continuation.resume() } }
        #expect(try directory.entries == names)
    }

    @Test func partWhoseRecordCannotBeReadStays() async throws {
        let plan = DownloadPlan(target: .file(directory.file("target")))
        try await leavePart(plan)
        // A directory can be opened but not read.
        let record = directory.file(".target.convoy-resume")
        try FileManager.default.removeItem(at: record)
        try FileManager.default.createDirectory(at: record, withIntermediateDirectories: false)
        let server = StubServer { Self.version.answer($0) }
        let error = try await Sending(Request.stub("file").saved(plan), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
        let part = try Data(contentsOf: directory.file(".target.convoy-part"))
        #expect(part == Self.version.content.prefix(100_000))
    }
}

@Suite struct DownloadPlanTests {
    @Test(arguments: [
        ("/tmp/a", "/tmp", "a"), ("/a", "/", "a"), ("/tmp/a b%41?c#d", "/tmp", "a b%41?c#d"),
        ("/tmp//ü/n", "/tmp//ü", "n"),
    ])
    func theNameOfAFileIsTheLastPartOfItsPath(path: String, directory: String, name: String) {
        let place = DownloadPlan(target: .file(URL(filePath: path, directoryHint: .notDirectory))).place
        #expect(place.directory == directory)
        #expect(place.fileName == name)
    }

    @Test(arguments: [
        ("file:///tmp/a/", "/tmp", "a"), ("file://localhost/tmp/a", "/tmp", "a"), ("b/../c", "/tmp", "c"),
    ])
    func anyFileURLHasTheNameOfItsPath(text: String, directory: String, name: String) throws {
        let url = try #require(URL(string: text, relativeTo: URL(filePath: "/tmp", directoryHint: .isDirectory)))
        let place = DownloadPlan(target: .file(url)).place
        #expect(place.directory == directory)
        #expect(place.fileName == name)
    }
}

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

@Suite struct DownloadAnswerTests {
    private static let tag = Validator.entityTag("\"v1\"")

    private func answer(
        _ status: Int, _ range: String?, expecting byteCount: Int64? = nil, tag: String = "\"v1\"",
        continuing offset: Int64? = 100
    ) -> DownloadAnswer {
        var fields: HeaderFields = ["ETag": tag]
        fields["Content-Range"] = range
        let head = ResponseHead(statusCode: status, headerFields: fields, expectedBytes: byteCount)
        let point = offset.map { ResumePoint(byteCount: $0, validator: Self.tag, totalBytes: 300, coding: nil) }
        return DownloadAnswer(head, continuing: point, asksForRange: false, isRefused: false)
    }

    /// A 200 with a `Content-Range` is a range, so its bytes are not the complete file.
    @Test(arguments: [200, 206]) func aRequestedRangeContinuesTheFile(status: Int) {
        #expect(answer(status, "bytes 100-299/300", expecting: 200) == .body(from: 100, totalBytes: 300))
        #expect(answer(status, "bytes 100-299/*", expecting: 200) == .body(from: 100, totalBytes: 300))
    }

    @Test(arguments: [200, 206], ["bytes 99-299/300", "bytes 200-299/300", "bytes 100-399/400", "bytes 0-99/300"])
    func otherRangeIsALie(status: Int, range: String) {
        #expect(answer(status, range).canStartOver)
        #expect(answer(status, "bytes 100-299/300", tag: "\"v2\"").canStartOver)
        #expect(answer(status, "bytes 100-299/300", expecting: 300).canStartOver)
    }

    @Test(arguments: [nil, "bytes 0-299/300", "bytes 0-299/*", "bytes */300", "lines 100-299/300", "nonsense"])
    func aResponseWithoutAMatchingRangeIsTheCompleteFile(range: String?) {
        #expect(answer(200, range, expecting: 300) == .body(from: 0, totalBytes: 300))
    }

    /// Without a requested range, `Content-Range` has no meaning in a 200 (RFC 9110, section 14.4).
    @Test func aRequestedCompleteFileIsAccepted() {
        #expect(answer(200, "bytes 100-299/300", expecting: 200, continuing: nil) == .body(from: 0, totalBytes: 200))
    }
}
