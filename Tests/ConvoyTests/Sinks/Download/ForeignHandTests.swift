import Foundation
import Testing

@testable import Convoy

/// Tests files that another process changes during the download: the changed bytes never become the target.
@Suite(.timeLimit(.minutes(5))) struct ForeignHandTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private var part: URL { directory.file(".target.convoy-part") }

    init() throws { directory = try TemporaryDirectory() }

    private func setLength(_ count: Int) throws {
        let handle = try FileHandle(forWritingTo: part)
        try handle.truncate(atOffset: UInt64(count))
        try handle.close()
    }

    private func partBytes() -> Int { FileManager.default.contents(atPath: part.path)?.count ?? 0 }

    /// The part becomes shorter or longer, with and without later bytes.
    @Test(arguments: [0, 70_000, 150_000], [true, false])
    func plainPartThatIsGivenAnotherLengthIsThrownAway(count: Int, isAtTheEnd: Bool) async throws {
        let content = FileVersion.seeded(1, byteCount: 300_000)
        let server = StubServer.held()
        let sending = Sending(Request.stub("file").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200, headerFields: ["ETag": "\"v1\""], expectedBytes: 300_000))
        let first = isAtTheEnd ? 300_000 : 100_000
        exchange.send(content.prefix(first))
        await look { partBytes() == first }
        try setLength(count)
        if !isAtTheEnd { exchange.send(content.dropFirst(first)) }
        exchange.finish()
        let error = try await sending.error()
        #expect(error.code == .destinationUnwritable)
        #expect(error.message.contains("another process"))
        #expect(try directory.entries == [])
    }

    @Test(arguments: [0, 1_000_000, 2_000_000, 2_200_000])
    func segmentedPartThatIsTruncatedIsThrownAway(count: Int) async throws {
        let content = FileVersion.seeded(1, byteCount: 2_200_000)
        let gate = EventLog<StubExchange>()
        let server = StubServer { exchange in
            guard exchange.request.headerFields["Range"] == "bytes=1100000-2199999" else {
                return FileVersion(content).answer(exchange)
            }
            gate.record(exchange)
        }
        let download = server.manager(4).downloadInSegments(.stub("file"), to: target, segments: 2)
        let last = await gate.wait()[0]
        await look { download.progress.download.completedBytes == 1_100_000 }
        try setLength(count)
        FileVersion(content).answer(last)
        do throws(RequestError) {
            _ = try await download.file()
            Issue.record("it became the file")
        } catch {
            #expect(error.code == .destinationUnwritable)
            #expect(error.message.contains("another process"))
        }
        #expect(try directory.entries == [])
    }
}
