import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Tests parts and records that another process changes: their bytes never become the target.
@Suite(.timeLimit(.minutes(5))) struct ForeignHandTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private var part: URL { directory.file(".target.convoy-part") }
    private static let content = FileVersion.seeded(1, byteCount: 300_000)

    init() throws { directory = try TemporaryDirectory() }

    private func partBytes() -> Int { FileManager.default.contents(atPath: part.path)?.count ?? 0 }

    private func expectThrownAway(_ error: RequestError?) throws {
        #expect(error?.code == .destinationUnwritable)
        #expect(error?.message.contains("another process") == true)
        #expect(try directory.entries == [])
    }

    @Test func partWhoseRecordCannotBeReadStays() async throws {
        let request = Request.stub("file").saved(to: target)
        let cut = StubServer { FileVersion(Self.content).answer($0, sending: 100_000, thenFailing: .cut) }
        #expect(try await Sending(request, over: cut.transport).error().code == .connectionLost)
        // A directory can be opened but not read.
        let record = directory.file(".target.convoy-resume")
        try FileManager.default.removeItem(at: record)
        try FileManager.default.createDirectory(at: record, withIntermediateDirectories: false)
        let server = StubServer { FileVersion(Self.content).answer($0) }
        #expect(try await Sending(request, over: server.transport).error().code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
        #expect(try Data(contentsOf: part) == Self.content.prefix(100_000))
    }

    /// The part becomes shorter or longer, with and without later bytes.
    @Test(arguments: [0, 70_000, 150_000], [true, false])
    func plainPartThatIsGivenAnotherLengthIsThrownAway(count: Int, isAtTheEnd: Bool) async throws {
        let server = StubServer.held()
        let sending = Sending(Request.stub("file").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        let first = isAtTheEnd ? 300_000 : 100_000
        FileVersion(Self.content).answer(exchange, sending: first, isLeftOpen: true)
        await look { partBytes() == first }
        #expect(truncate(part.path, off_t(count)) == 0)
        if !isAtTheEnd { exchange.send(Self.content.dropFirst(first)) }
        exchange.finish()
        try expectThrownAway(await sending.error())
    }

    @Test(arguments: [0, 1_000_000, 2_000_000, 2_200_000])
    func segmentedPartThatIsTruncatedIsThrownAway(count: Int) async throws {
        let version = FileVersion(FileVersion.seeded(1, byteCount: 2_200_000))
        let gate = EventLog<StubExchange>()
        let server = StubServer { exchange in
            guard exchange.request.headerFields["Range"] == "bytes=1100000-2199999" else {
                return version.answer(exchange)
            }
            gate.record(exchange)
        }
        let download = server.manager(4).downloadInSegments(.stub("file"), to: target, segments: 2)
        let last = await gate.wait()[0]
        await look { download.progress.download.completedBytes == 1_100_000 }
        #expect(truncate(part.path, off_t(count)) == 0)
        version.answer(last)
        try expectThrownAway(await #expect(throws: RequestError.self) { try await download.file() })
    }
}
