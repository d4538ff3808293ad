import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct DownloadSinkTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }

    init() throws { directory = try TemporaryDirectory() }

    private func content() throws -> Data { try Data(contentsOf: target) }

    /// The names of all files except the target.
    private func parts() throws -> [String] { try directory.entries.filter { $0 != "target" } }

    @Test func bodyAppearsUnderItsNameWhenItIsComplete() async throws {
        // If the transport cannot pause, bytes are in the file when the call returns.
        let server = StubServer.held(pausesInPlace: false)
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("hel".utf8))
        let part = ".target.convoy-part"
        #expect(try directory.entries == [part])
        #expect(try Data(contentsOf: directory.file(part)) == Data("hel".utf8))
        exchange.send(Data("lo".utf8))
        exchange.finish()
        #expect(try await sending.response().value == target)
        #expect(try directory.entries == ["target"])
        #expect(try content() == Data("hello".utf8))
    }

    @Test func existingFileIsReplacedWhenTheBodyIsComplete() async throws {
        try Data("old and longer".utf8).write(to: target)
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("new".utf8))
            exchange.finish()
        }
        _ = try await Sending(Request.stub("a").saved(to: target), over: server.transport).response()
        #expect(try content() == Data("new".utf8))
        #expect(try parts().isEmpty)
    }

    @Test func emptyBodyMakesAnEmptyFile() async throws {
        let server = StubServer { $0.answer(200) }
        _ = try await Sending(Request.stub("a").saved(to: target), over: server.transport).response()
        #expect(try content().isEmpty)
        #expect(try parts().isEmpty)
    }

    @Test func linkAtTheTargetIsReplacedNotFollowed() async throws {
        let elsewhere = directory.file("elsewhere")
        try Data("keep".utf8).write(to: elsewhere)
        try FileManager.default.createSymbolicLink(at: target, withDestinationURL: elsewhere)
        _ = try await Sending(Request.stub("a").saved(to: target), over: StubServer().transport).response()
        #expect(try Data(contentsOf: elsewhere) == Data("keep".utf8))
        #expect(try content() == Data("ok".utf8))
    }

    @Test func fileHasNoLimitOfItsOwn() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 1_000))
            for _ in 0..<10 { exchange.send(Data(count: 100)) }
            exchange.finish()
        }
        let request = Request.stub("a").saved(to: target)
        _ = try await Sending(request, over: server.transport).response()
        #expect(try content().count == 1_000)
    }

    @Test func responseThatArrivesAgainStartsTheFileAfresh() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("first, and longer".utf8))
            exchange.answer(200, body: Data("second".utf8))
        }
        _ = try await Sending(Request.stub("a").saved(to: target), over: server.transport).response()
        #expect(try content() == Data("second".utf8))
        #expect(try parts().isEmpty)
    }

    // MARK: A failure leaves the target unchanged and no other file

    private static let failures: [(name: String, end: @Sendable (StubExchange) -> Void, code: RequestError.Code)] = [
        ("lost", { $0.finish(RequestError(.connectionLost, "cut")) }, .connectionLost),
        ("cancelled", { _ in }, .cancelled),
        ("refused afterwards", { $0.answer(500, body: Data("sorry".utf8)) }, .unacceptableStatus),
    ]

    @Test(arguments: 0..<3, [true, false])
    func failureLeavesTheTargetAsItWas(index: Int, exists: Bool) async throws {
        let failure = Self.failures[index]
        if exists { try Data("old".utf8).write(to: target) }
        let server = StubServer.held(pausesInPlace: false)
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("new".utf8))
        #expect(try parts().count == 1)
        failure.end(exchange)
        if failure.code == .cancelled { sending.operation.cancel() }
        #expect(try await sending.error().code == failure.code)
        #expect(try directory.entries == (exists ? ["target"] : []))
        if exists { #expect(try content() == Data("old".utf8)) }
    }

    @Test func unacceptableAnswerLeavesNothing() async throws {
        let server = StubServer.held()
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 404))
        exchange.send(Data("none".utf8))
        exchange.finish()
        let error = try await sending.error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("none".utf8))
        #expect(try directory.entries == [])
    }

    /// A head that arrives after the end, for example during a cancellation, creates no file.
    @Test func headOfAnAttemptThatIsOverMakesNoFile() async throws {
        let operation = RequestOperation(Request.stub("a").saved(to: target), transport: StubServer.held().transport)
        let request = Request.stub("a").saved(to: target)
        let attempt = Attempt(
            number: 1, operation: operation, plan: TypedRequestPlan(request),
            request: try PreparedRequest(request.core, baseURL: nil), started: CompactInstant(.now))
        attempt.close()
        // Without the directory, creating a file would fail and be reported.
        try FileManager.default.removeItem(at: directory.url)
        attempt.didReceive(ResponseHead(statusCode: 200))
        #expect(!attempt.didReceive(Data("late".utf8)))
        attempt.didFinish(nil)
        #expect(operation.result == nil)
    }

    // MARK: Targets that cannot be written

    @Test func missingDirectoryIsRefusedBeforeAnythingIsSent() async throws {
        let server = StubServer()
        let target = directory.url.appending(path: "none/target")
        let error = try await Sending(Request.stub("a").saved(to: target), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(error.message.contains("does not exist"))
        #expect(server.exchanges.count == 0)
        #expect(try directory.entries == [])
    }

    @Test func fileInThePlaceOfTheDirectoryIsRefusedBeforeAnythingIsSent() async throws {
        try Data().write(to: directory.file("file"))
        let server = StubServer()
        let target = directory.url.appending(path: "file/target")
        let error = try await Sending(Request.stub("a").saved(to: target), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
    }

    @Test(.enabled(if: geteuid() != 0, "root may write everywhere"))
    func directoryThatMayNotBeWrittenToIsRefusedBeforeAnythingIsSent() async throws {
        chmod(directory.url.path, 0o555)
        defer { chmod(directory.url.path, 0o755) }
        let server = StubServer()
        let error = try await Sending(Request.stub("a").saved(to: target), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
    }

    @Test func directoryThatGoesAwayIsAnError() async throws {
        let server = StubServer.held()
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        try FileManager.default.removeItem(at: directory.url)
        exchange.answer(200, body: Data("x".utf8))
        let error = try await sending.error()
        #expect(error.code == .destinationUnwritable)
        #expect((error.underlying as? POSIXError)?.code == .ENOENT)
        #expect(error.description.isOneLine)
    }

    @Test func aDirectoryAtTheTargetIsKeptAndReported() async throws {
        try FileManager.default.createDirectory(at: target, withIntermediateDirectories: false)
        try Data("keep".utf8).write(to: target.appending(path: "kept"))
        let error = try await Sending(Request.stub("a").saved(to: target), over: StubServer().transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(!error.isRetryable)
        #expect(error.message.contains(target.path))
        #expect(try directory.entries == ["target"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: target.path) == ["kept"])
    }

    #if os(Linux)
        /// No process can create files in `/proc`, not even as root.
        @Test func fileThatCannotBeMadeIsAnError() async throws {
            let target = URL(filePath: "/proc/target")
            let error = try await Sending(Request.stub("a").saved(to: target), over: StubServer().transport).error()
            #expect(error.code == .destinationUnwritable)
        }
    #endif

    @Test(arguments: ["with space", "ü", "a%20b", "-n", "a\"b", "a\nb", ".hidden"])
    func anyNameWillDo(name: String) async throws {
        let target = directory.file(name)
        let response = try await Sending(Request.stub("a").saved(to: target), over: StubServer().transport).response()
        #expect(response.value == target)
        #expect(try directory.entries == [name])
    }

    @Test func secondDownloadToOneTargetFailsAtOnce() async throws {
        let server = StubServer.held(pausesInPlace: false)
        let manager = server.manager()
        let first = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("fir".utf8))
        let second = manager.download(.stub("b"), to: target)
        let outcomes = EventLog<RequestError?>()
        second.onFinish { outcomes.record($0.failure as? RequestError) }
        let error = try #require(await outcomes.wait().first ?? nil)
        #expect(error.code == .destinationInUse)
        #expect(!error.isRetryable)
        #expect(error.message.contains("another download to the same file is running"))
        #expect(server.exchanges.count == 1)
        exchange.send(Data("st".utf8))
        exchange.finish()
        _ = try await first.response()
        #expect(try content() == Data("first".utf8))
        #expect(try parts().isEmpty)
    }

    /// The lock belongs to the file, so other processes and descriptors see it too.
    @Test func thePartIsUnlockedWhenTheOperationEnds() async throws {
        for _ in 0..<20 {
            let server = StubServer()
            _ = try await Sending(Request.stub("a").saved(to: target), over: server.transport).response()
            let cancelled = StubServer.held()
            let sending = Sending(Request.stub("a").saved(to: target), over: cancelled.transport)
            await cancelled.exchanges.wait()[0].respond(ResponseHead(statusCode: 200))
            sending.operation.cancel()
            #expect(try await sending.error().code == .cancelled)
        }
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
