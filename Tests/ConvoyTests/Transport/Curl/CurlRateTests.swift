// Tests limits of bytes per second over libcurl: every byte arrives, and the chunks are small enough.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct CurlRateTests {
        @Test(arguments: [nil, "gzip"])
        func everyByteArrivesDespiteRepeatedPauses(coding: String?) async throws {
            let server = try TestServer()
            let body = Data.patterned(600_000)
            if coding == nil {
                server.enqueue(.body(body))
                server.enqueue(.body(body))
            } else {
                let coded = try Gzip.compress(body)
                let reply = Reply.status(200, headerFields: [("Content-Encoding", "gzip")], body: coded)
                server.enqueue([reply, reply])
            }
            let configuration = RequestManager.Configuration(maxConcurrentOperationCount: 2)
            let manager = RequestManager(configuration: configuration)
            manager.maxBytesPerSecond = 4_000_000
            let request = Request<Data>.get(server.url("/a")).maxBytesPerSecond(1_000_000)
            // The idle timeout is shorter than the transfer, but longer than each pause.
            let limited = manager.enqueue(request.idleTimeout(.seconds(20)))
            let other = manager.enqueue(Request<Data>.get(server.url("/b")))
            #expect(try await limited.response().value == body)
            #expect(try await other.response().value == body)
        }

        @Test func piecesAreAsSmallAsTheLimitAsks() async throws {
            let server = try TestServer()
            let body = Data.patterned(40_000)
            server.enqueue(.body(body))
            let client = SmallPieces()
            let task = try CurlTransport.shared.makeTask(
                for: try PreparedRequest(Request<Data>.get(server.url("/a")).core, baseURL: nil), client: client)
            task.resume()
            await client.ended.wait()
            #expect(Data(client.chunks.events.joined()) == body)
            #expect(client.chunks.events.allSatisfy { $0.count <= 1_500 })
        }
    }

    /// A client that accepts at most 1,500 bytes at a time.
    private final class SmallPieces: TransportClient {
        let chunks = EventLog<Data>()
        let ended = EventLog<Void>()

        var maxChunkBytes: Int { 1_500 }
        func didReceive(_: ResponseHead) {}
        func didReceive(_ data: Data) -> Bool {
            chunks.record(data)
            return true
        }
        func didPause() {}
        func didSend(totalBytes _: Int64) {}
        func didFinish(_: RequestError?) { ended.record(()) }
    }
#endif
