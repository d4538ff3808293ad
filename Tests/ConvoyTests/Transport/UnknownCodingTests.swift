import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct UnknownCodingTests {
    private static func transports() -> [any Transport] {
        #if canImport(CLibcurl)
            [CurlTransport.shared]
        #else
            []
        #endif
    }

    @Test(arguments: ["aes128gcm", "compress", "x, y, z, a, b, c"])
    func unknownCodingsKeepTheSentBytesAndTheCoding(coding: String) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/a") { _ in
            Reply.status(200, headerFields: [("Content-Encoding", coding)], body: Data("raw".utf8))
        }
        for transport in Self.transports() {
            let request = Request<Data>.get(server.url("/a"))
            #expect(try await Sending(request, over: transport).error().code == .badResponse)
            let response = try await Sending(request.keepingUnknownCodings(), over: transport).response()
            #expect(response.value == Data("raw".utf8))
            #expect(response.undecodedCoding == coding)
        }
        // The requests do not accept the coding.
        for _ in 0..<(2 * Self.transports().count) {
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") != coding)
        }
    }

    @Test func knownCodingsAreDecodedAndRemoved() throws {
        let request = Request<Data>.get("http://a/b").keepingUnknownCodings()
        let prepared = try PreparedRequest(request.core, baseURL: nil)
        #expect(prepared.keepsUnknownCodings)
        let rows: [(coding: String, left: String?)] = [
            ("gzip", nil), ("identity", nil), ("utf-8, gzip", nil), ("gzip, aes128gcm", "gzip, aes128gcm"),
            ("aes128gcm, gzip", "aes128gcm"),
        ]
        for (coding, left) in rows {
            let head = ResponseHead(statusCode: 200, headerFields: ["Content-Encoding": coding])
            #expect(Response(value: Data(), request: prepared, head: head).undecodedCoding == left)
        }
        // An empty body has no bytes that could be coded.
        let empty = ResponseHead(statusCode: 304, headerFields: ["Content-Encoding": "br"])
        #expect(Response(value: Data(), request: prepared, head: empty).undecodedCoding == nil)
    }

    @Test func requestsThatKeepThemShareNoTransferWithOthers() throws {
        let request = Request<Data>.get("http://a/b").coalesced()
        let keys = try [request, request.keepingUnknownCodings()].map {
            try #require(CoalescingKey($0.core, try PreparedRequest($0.core, baseURL: nil)))
        }
        #expect(keys[0] != keys[1])
    }
}
