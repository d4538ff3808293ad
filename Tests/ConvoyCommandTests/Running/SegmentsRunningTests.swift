import ConvoyTesting
import Foundation
import Testing

/// Tests the effects of `--segments`, `--rate` and `--min-speed` that need no clock.
@Suite struct SegmentsRunningTests {
    private static let byteCount: Int64 = 5_000_000

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
    }

    private func fetch(_ options: String...) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(
            ["fetch", "--json", "-o", directory.url.path] + options + [server.url("/file").absoluteString]
        ).ended()
    }

    private func expectFile(sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try directory.names() == ["file"], sourceLocation: sourceLocation)
        let data = try Data(contentsOf: directory.url.appending(path: "file"))
        #expect(data == Reply.pattern(range: 0..<Self.byteCount), sourceLocation: sourceLocation)
    }

    @Test func aFileComesInSegments() async throws {
        server.respond { _ in .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"") }
        let ending = try await fetch("--segments", "4")
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(server.requestCount == 5)
        let finished = try #require(ending.events(named: "finished").first)
        #expect(finished["bytes"] as? Int64 == Self.byteCount)
        #expect(ending.events(named: "summary").first?["succeeded"] as? Int == 1)
        try expectFile()
    }

    @Test func interruptedSegmentsAreContinued() async throws {
        let gate = Gate()
        server.respond { request in
            let reply = Reply.resource(generatedByteCount: Self.byteCount, etag: "\"v1\"")
            let isHeld = request.value(of: "Range") == "bytes=2500000-4999999"
            return isHeld ? reply.stalling(afterBodyBytes: 1_000_000, until: gate) : reply
        }
        let child = try ConvoyProcess(
            ["fetch", "--segments=2", "-o", directory.url.path, server.url("/file").absoluteString])
        try await gate.reached(within: .seconds(120))
        child.send(SIGINT)
        let ending = try await child.ended()
        #expect(ending.status == 130)
        #expect(ending.output.contains("1 file is kept in part"))
        server.respond { _ in .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"") }
        let count = server.requestCount
        let next = try await fetch("--segments=2")
        #expect(next.status == 0)
        for _ in 0..<count { _ = try await server.takeRequest() }
        var ranges: [String?] = []
        while ranges.count < server.requestCount - count {
            ranges.append(try await server.takeRequest().value(of: "Range"))
        }
        #expect(!ranges.contains("bytes=2500000-4999999"))
        #expect(!ranges.contains(nil))
        let resumed = next.events(named: "finished").first?["resumed_bytes"] as? Int ?? 0
        #expect(resumed > 0)
        try expectFile()
    }

    @Test(arguments: ["--segments=1", "--segments=3"]) func aRateIsKeptToWithoutLosingAByte(option: String) async throws
    {
        server.respond { _ in .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"") }
        let ending = try await fetch(option, "--rate=50M", "--min-speed=1")
        #expect(ending.status == 0, "\(ending.errors)")
        try expectFile()
    }
}
