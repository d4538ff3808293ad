import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct DownloadSinkTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }

    init() throws { directory = try TemporaryDirectory() }

    private func content() throws -> Data { try Data(contentsOf: target) }

    private func parts() throws -> [String] { try directory.entries.filter { $0 != "target" } }

    // Starts the download, with the head and the first bytes of its body. If the transport cannot pause, bytes are in
    // the file when the call returns.
    private func begin(_ body: String) async throws -> (sending: Sending<URL>, exchange: StubExchange) {
        let server = StubServer.held(pausesInPlace: false)
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = try await server.answered()
        exchange.send(Data(body.utf8))
        return (sending, exchange)
    }

    @Test(arguments: [true, false]) func bodyAppearsUnderItsNameWhenItIsComplete(exists: Bool) async throws {
        if exists { try Data("old and longer".utf8).write(to: target) }
        let (sending, exchange) = try await begin("hel")
        #expect(try parts() == [".target.convoy-part"])
        #expect(try Data(contentsOf: directory.file(".target.convoy-part")) == Data("hel".utf8))
        if exists { #expect(try content() == Data("old and longer".utf8)) }
        exchange.send(Data("lo".utf8))
        exchange.finish()
        #expect(try await sending.response().value == target)
        #expect(try directory.entries == ["target"])
        #expect(try content() == Data("hello".utf8))
    }

    @Test func emptyBodyMakesAnEmptyFile() async throws {
        let server = StubServer { $0.answer(200) }
        _ = try await Sending(Request.stub("a").saved(to: target), over: server.transport).response()
        #expect(try content().isEmpty)
        #expect(try parts().isEmpty)
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

    // The body is longer than announced, which the transport does not check. If the sink kept the bytes of this small
    // body until the end, the transport would stay paused.
    @Test func aBodyLongerThanDeclaredIsWrittenAtOnce() async throws {
        let server = StubServer.held()
        let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 10))
        for _ in 0..<2 { exchange.send(Data(count: 1 << 20)) }
        let part = directory.file(".target.convoy-part").path
        await look { FileManager.default.contents(atPath: part)?.count == 2 << 20 }
        sending.operation.cancel()
        #expect(try await sending.error().code == .cancelled)
    }

    @Test(arguments: [.connectionLost, .cancelled, .unacceptableStatus] as [RequestError.Code], [true, false])
    func failureLeavesTheTargetAsItWas(code: RequestError.Code, exists: Bool) async throws {
        if exists { try Data("old".utf8).write(to: target) }
        let (sending, exchange) = try await begin("new")
        #expect(try parts().count == 1)
        switch code {
        case .connectionLost: exchange.finish(.cut)
        case .cancelled: sending.operation.cancel()
        default: exchange.answer(500, body: Data("sorry".utf8))
        }
        #expect(try await sending.error().code == code)
        #expect(try directory.entries == (exists ? ["target"] : []))
        if exists { #expect(try content() == Data("old".utf8)) }
    }

    /// Root may write everywhere, but creates no file in `/proc`.
    @Test(arguments: ["none/target", "file/target", geteuid() == 0 ? "/proc/target" : "locked/target"])
    func aDirectoryThatCannotBeWrittenToIsRefused(path: String) async throws {
        try Data().write(to: directory.file("file"))
        chmod(try directory.makeDirectory("locked").path, 0o555)
        let server = StubServer()
        let target = path.hasPrefix("/") ? URL(filePath: path) : directory.file(path)
        let error = try await Sending(Request.stub("a").saved(to: target), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        if path.hasPrefix("none") { #expect(error.message.contains("does not exist")) }
        if !path.hasPrefix("/proc") { #expect(server.exchanges.count == 0) }
        #expect(try directory.entries == ["file", "locked"])
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
        error.expect(.destinationUnwritable)
        #expect(error.message.contains(target.path))
        #expect(try directory.entries == ["target"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: target.path) == ["kept"])
    }

    @Test(arguments: ["with space", "ü", "a%20b", "-n", "a\"b", "a\nb", ".hidden"])
    func anyNameWillDo(name: String) async throws {
        let target = directory.file(name)
        let response = try await Sending(Request.stub("a").saved(to: target), over: StubServer().transport).response()
        #expect(response.value == target)
        #expect(try directory.entries == [name])
    }

    @Test func secondDownloadToOneTargetFailsAtOnce() async throws {
        let (first, exchange) = try await begin("fir")
        let server = StubServer()
        let error = try await Sending(Request.stub("b").saved(to: target), over: server.transport).error()
        error.expect(.destinationInUse)
        #expect(error.message.contains("another download to the same file is running"))
        #expect(server.exchanges.count == 0)
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
            _ = try await cancelled.answered()
            sending.operation.cancel()
            #expect(try await sending.error().code == .cancelled)
        }
    }
}

@Suite struct DownloadPlanTests {
    @Test(arguments: [
        ("/tmp/a", "/tmp", "a"), ("/a", "/", "a"), ("/tmp/a b%41?c#d", "/tmp", "a b%41?c#d"),
        ("/tmp//ü/n", "/tmp//ü", "n"), ("file:///tmp/a/", "/tmp", "a"), ("file://localhost/tmp/a", "/tmp", "a"),
        ("b/../c", "/tmp", "c"),
    ])
    func theNameOfAFileIsTheLastPartOfItsPath(text: String, directory: String, name: String) throws {
        let base = URL(filePath: "/tmp", directoryHint: .isDirectory)
        let url =
            text.hasPrefix("/")
            ? URL(filePath: text, directoryHint: .notDirectory) : try #require(URL(string: text, relativeTo: base))
        let plan = DownloadPlan(url: url)
        #expect(plan.directory.path == directory)
        #expect(plan.fileName == name)
    }
}
