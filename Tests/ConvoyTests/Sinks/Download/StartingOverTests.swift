import Foundation
import Testing

@testable import Convoy

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
            let number = count.withLock { count in
                count += 1
                return count
            }
            let isLie = exchange.request.headerFields["Range"] == "bytes=100000-"
            switch number {
            case _ where isLie:
                version.send(exchange, 206, ["Content-Range": "bytes 5-299999/300000"], Self.content.dropFirst(5))
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
