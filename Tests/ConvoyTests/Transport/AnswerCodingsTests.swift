import Foundation
import Testing

@testable import Convoy

@Suite struct AnswerCodingsTests {
    /// The codings that are decoded for a body with this `Content-Encoding`.
    private func toUndo(_ field: String, accepting accepted: String? = nil) throws -> [String] {
        var request = try PreparedRequest(Request.stub("a").core, baseURL: nil)
        request.headerFields["Accept-Encoding"] = accepted
        return try ContentCodings.toUndo(
            ResponseHead(statusCode: 200, headerFields: ["Content-Encoding": field]), of: request)
    }

    @Test(arguments: [
        ("5", nil), (" 05 ", nil), ("5, 5", nil), ("5, 8", "two lengths, 5 and 8"), ("0x5", "invalid"),
        ("+5", "invalid"),
        ("", "invalid"), ("5,", "invalid"), ("-1", "invalid"), ("99999999999999999999", "invalid"), ("٥", "invalid"),
    ])
    func anInvalidLengthIsADefect(field: String, words: String?) throws {
        let defect = DeclaredLength(["Content-Length": field]).defect
        if let words { #expect(defect?.contains(words) == true) } else { #expect(defect == nil) }
    }

    @Test(arguments: [
        "", " ", "identity", "None", " , ,", "identity,identity, ,none,,identity,identity", "UTF-8", "binary, utf8",
    ])
    func labelsAndEmptyNamesAreNotCodings(field: String) throws {
        #expect(try toUndo(field) == [])
    }

    @Test(arguments: [
        ("gzip", ["gzip"]), ("GZip", ["gzip"]), (" x-gzip\t", ["x-gzip"]), ("deflate,", ["deflate"]),
        ("identity, gzip", ["gzip"]), ("utf-8, gzip", ["gzip"]), ("gzip, Binary", ["gzip"]),
        ("aws-chunked,gzip", ["gzip"]), (",gzip,, br,gzip,gzip , ZSTD", ["gzip", "br", "gzip", "gzip", "zstd"]),
    ])
    func namesCompareWithoutCaseAndSpaceAndKeepTheirOrder(field: String, codings: [String]) throws {
        #expect(try toUndo(field) == codings)
    }

    @Test(arguments: [nil, "gzip"]) func sixCodingsAreTooMany(accepted: String?) throws {
        let five = Array(repeating: "gzip", count: 5).joined(separator: ",")
        #expect(try toUndo(five).count == 5)
        let error = #expect(throws: RequestError.self) { try toUndo(five + ",gzip", accepting: accepted) }
        #expect(error?.code == .badResponse)
        #expect(error?.message.contains("6 content codings") == true)
    }

    @Test(arguments: [nil, "gzip"]) func codingOfNoKnownNameIsRefused(accepted: String?) throws {
        let error = #expect(throws: RequestError.self) { try toUndo("gzip, X\u{1B}", accepting: accepted) }
        #expect(error?.code == .badResponse)
        #expect(error?.message.contains("\"x\"") == true)
    }

    /// The codings outside of one that Convoy cannot decode.
    @Test(arguments: [
        ("gzip, X", []), ("X, gzip", ["gzip"]), ("gzip, X, br, gzip", ["br", "gzip"]), ("X, X, gzip", ["gzip"]),
    ])
    func theOutermostKnownCodingsAreDecoded(field: String, codings: [String]) throws {
        #expect(try toUndo(field, accepting: "gzip, x") == codings)
    }

    @Test(arguments: ["gzip", "xz", "gzip, compress", "X", "gzip, X", "gzip,gzip,gzip,gzip,gzip,gzip"])
    func anyCodingIsKeptIfIdentityWasRequested(field: String) throws {
        #expect(try toUndo(field, accepting: "identity") == [])
    }
}

@Suite struct UnknownCodingTests {
    #if canImport(CLibcurl)
        @Test(arguments: ["aes128gcm", "compress", "x, y, z, a, b, c"])
        func unknownCodingsKeepTheSentBytesAndTheCoding(coding: String) async throws {
            let server = try TestServer()
            server.respond { _ in .status(200, headerFields: [("Content-Encoding", coding)], body: Data("raw".utf8)) }
            let request = Request<Data>.get(server.url()).keepingUnknownCodings()
            let response = try await Sending(request, over: CurlTransport.shared).response()
            #expect(response.value == Data("raw".utf8))
            #expect(response.undecodedCoding == coding)
            // The request does not accept the coding.
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") != coding)
        }
    #endif

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
