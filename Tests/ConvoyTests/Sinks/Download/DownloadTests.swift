import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests which records a download reads when it begins.
@Suite struct DownloadTests {
    private let directory: TemporaryDirectory
    private static let version = FileVersion(FileVersion.seeded(1, byteCount: 300_000))

    init() throws { directory = try TemporaryDirectory() }

    @Test func partWhoseRecordCannotBeReadStays() async throws {
        let request = Request.stub("file").saved(to: directory.file("target"))
        let cut = StubServer { Self.version.answer($0, sending: 100_000, thenFailing: .cut) }
        #expect(try await Sending(request, over: cut.transport).error().code == .connectionLost)
        // A directory can be opened but not read.
        let record = directory.file(".target.convoy-resume")
        try FileManager.default.removeItem(at: record)
        try FileManager.default.createDirectory(at: record, withIntermediateDirectories: false)
        let server = StubServer { Self.version.answer($0) }
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
        let part = try Data(contentsOf: directory.file(".target.convoy-part"))
        #expect(part == Self.version.content.prefix(100_000))
    }
}

/// Tests files that another process changes during the download: the changed bytes never become the target.
@Suite(.timeLimit(.minutes(5))) struct ForeignHandTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private var part: URL { directory.file(".target.convoy-part") }

    init() throws { directory = try TemporaryDirectory() }

    private func setLength(_ count: Int) { #expect(truncate(part.path, off_t(count)) == 0) }

    private func partBytes() -> Int { FileManager.default.contents(atPath: part.path)?.count ?? 0 }

    /// The part becomes shorter or longer, with and without later bytes.
    @Test(arguments: [0, 70_000, 150_000], [true, false])
    func plainPartThatIsGivenAnotherLengthIsThrownAway(count: Int, isAtTheEnd: Bool) async throws {
        let content = FileVersion.seeded(1, byteCount: 300_000)
        let server = StubServer.held()
        let sending = Sending(Request.stub("file").saved(to: target), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        let first = isAtTheEnd ? 300_000 : 100_000
        FileVersion(content).answer(exchange, sending: first, isLeftOpen: true)
        await look { partBytes() == first }
        setLength(count)
        if !isAtTheEnd { exchange.send(content.dropFirst(first)) }
        exchange.finish()
        try expectThrownAway(await sending.error())
    }

    private func expectThrownAway(_ error: RequestError) throws {
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
        setLength(count)
        FileVersion(content).answer(last)
        let error = await #expect(throws: RequestError.self) { try await download.file() }
        try expectThrownAway(#require(error))
    }
}

/// Tests that the complete file is requested after a wrong range, however often that fails.
@Suite struct StartingOverTests {
    private let directory: TemporaryDirectory
    private static let content = FileVersion.seeded(1, byteCount: 300_000)

    init() throws { directory = try TemporaryDirectory() }

    /// The end of the attempt that requests the complete file.
    enum Ending: CaseIterable, Sendable {
        case lost, refused, redirected, cut

        /// The range that the following attempt requests.
        var nextRange: String? { self == .cut ? "bytes=200000-" : nil }

        func end(_ exchange: StubExchange, _ version: FileVersion) {
            switch self {
            case .lost: exchange.finish(.cut)
            case .refused: exchange.answer(503)
            case .redirected: exchange.answer(302, headerFields: ["Location": "/elsewhere"])
            case .cut: version.answer(exchange, sending: 200_000, thenFailing: .cut)
            }
        }
    }

    @Test(arguments: Ending.allCases) func theCompleteFileIsRequestedUntilItArrives(ending: Ending) async throws {
        let version = FileVersion(Self.content)
        let request = Request.stub("file").retries(RetryPolicy(baseDelay: .zero)).saved(to: directory.file("target"))
        let failing = StubServer { version.answer($0, sending: 100_000, thenFailing: .cut) }
        let first = Sending(request.retries(.never), over: failing.transport)
        #expect(try await first.error().code == .connectionLost)
        let count = Locked(0)
        let server = StubServer { exchange in
            switch count.countUp() {
            case 1: version.send(exchange, 206, ["Content-Range": "bytes 5-299999/300000"], Self.content.dropFirst(5))
            case 2: ending.end(exchange, version)
            default: version.answer(exchange)
            }
        }
        let result = try await Sending(request, over: server.transport).result()
        #expect(result.code == nil, "\(result)")
        #expect(
            server.exchanges.events.map { $0.request.headerFields["Range"] }
                == ["bytes=100000-", nil, ending.nextRange])
        #expect(try directory.entries == ["target"])
        #expect(try Data(contentsOf: directory.file("target")) == Self.content)
    }
}
