import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests the effects of the functions that set a body.
@Suite struct RequestBodiesTests {
    private let post = Request<Data>.post("http://stub/")

    private func prepared(_ request: Request<Data>) throws -> PreparedRequest {
        try PreparedRequest(request.core, baseURL: nil)
    }

    // MARK: Forms in one line

    /// The examples follow the URL standard of the WHATWG, section 5.2.
    @Test(
        arguments: [
            ([], ""), ([("a", "b")], "a=b"), ([("a", nil)], "a="), ([("", "")], "="),
            ([("a", "1"), ("a", "2")], "a=1&a=2"), ([("q", "a b+c")], "q=a+b%2Bc"), ([("ü", "€")], "%C3%BC=%E2%82%AC"),
            ([("k", "-._*~!'()")], "k=-._*%7E%21%27%28%29"), ([("k", "&=%\r\n\0")], "k=%26%3D%25%0D%0A%00"),
        ] as [([(String, String?)], String)])
    func fieldsAreWrittenAsBrowsersDo(_ fields: [(String, String?)], _ expected: String) {
        let request = post.form(fields.map { URLQueryItem(name: $0, value: $1) })
        #expect(request.body == Data(expected.utf8))
        #expect(request.headerFields["Content-Type"] == "application/x-www-form-urlencoded")
    }

    // MARK: Framing

    @Test(arguments: ["5", "0", "3, 4", "", "-4", "four", "18446744073709551620"])
    func lengthThatIsNotTrueIsRefused(_ length: String) async throws {
        let server = StubServer()
        let request = post.body("four").header("content-length", length)
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .invalidRequest)
        #expect(error.message.contains("Content-Length is set by the transport"))
        #expect(server.exchanges.count == 0)
    }

    @Test func framingThatIsTrueIsAccepted() throws {
        #expect(try prepared(post.body("four").header("Content-Length", "4")).body?.byteCount == 4)
        let stream = post.body { InputStream(data: Data()) }
        #expect(try prepared(stream.header("Transfer-Encoding", "chunked")).body != nil)
    }

    /// Request smuggling uses both `Content-Length` and `Transfer-Encoding`, or one of them twice.
    @Test func framingThatContradictsItselfIsRefused() {
        let stream = post.body { InputStream(data: Data()) }
        for request in [
            post.body("four").header("Transfer-Encoding", "chunked"), stream.header("Content-Length", "4"),
            stream.header("Transfer-Encoding", "gzip, chunked"), stream.header("Transfer-Encoding", "identity"),
            post.body("four").addingHeader("Content-Length", "4").addingHeader("Content-Length", "4"),
        ] {
            #expect(#expect(throws: RequestError.self) { try prepared(request) }?.code == .invalidRequest)
        }
    }

    /// `check()` also finds contradictions that an interceptor adds to a prepared request.
    @Test func changedRequestIsCheckedAgain() throws {
        var request = try prepared(post.body("four"))
        request.headerFields["Content-Length"] = "4"
        try request.check()
        request.body = .data(Data("five!".utf8))
        #expect(#expect(throws: RequestError.self) { try request.check() }?.code == .invalidRequest)
        request.body = nil
        #expect(throws: RequestError.self) { try request.check() }
    }

    @Test func negativeLengthIsRefused() {
        #expect(post.body(byteCount: -1) { nil }.defect?.contains("negative") == true)
        #expect(post.body(Chunks.of(Data()), byteCount: -1).defect?.contains("negative") == true)
    }

    // MARK: Content types

    @Test(arguments: [
        ("a.png", "image/png"), ("A.PNG", "image/png"), ("a.tar.gz", "application/gzip"), ("a.jpeg", "image/jpeg"),
        ("noextension", "application/octet-stream"), ("a.", "application/octet-stream"),
        ("", "application/octet-stream"),
        (".json", "application/json"), ("a.unheard-of", "application/octet-stream"),
        ("a.b/c", "application/octet-stream"),
        ("a.JSON\u{301}", "application/octet-stream"), ("日本.txt", "text/plain"),
    ])
    func typeFollowsTheName(_ name: String, _ type: String) { #expect(ContentType.of(fileName: name) == type) }

    // MARK: gzip

    private func unzipped(_ data: Data) throws -> Data {
        #if canImport(CLibcurl)
            let decoder = try #require(try ContentDecoder.makeDecoder(codings: ["gzip"]))
            var result = Data()
            try data.withUnsafeBytes { bytes in
                var rest = bytes[...]
                while !rest.isEmpty || decoder.hasPendingOutput {
                    let used = try decoder.decode(UnsafeRawBufferPointer(rebasing: rest)) {
                        result.append(contentsOf: $0)
                        return true
                    }
                    rest = rest.dropFirst(used)
                }
            }
            try decoder.finish()
            return result
        #else
            return data
        #endif
    }

    @Test(arguments: [0, 1, 1_000, 65_536, 1_000_001], [true, false])
    func compressedBodyIsTheSameWhenUnpacked(_ byteCount: Int, _ isRandom: Bool) throws {
        var generator = SeededGenerator(seed: 1)
        let body =
            isRandom
            ? Data((0..<byteCount).map { _ in UInt8.random(in: 0...255, using: &generator) }) : Data(count: byteCount)
        // The body is a slice whose first index is not 0.
        let request = post.body((Data("x".utf8) + body).dropFirst()).gzipped()
        #expect(request.defect == nil)
        #expect(request.headerFields["Content-Encoding"] == "gzip")
        #expect(request.headerFields["Content-Type"] == "application/octet-stream")
        let packed = try #require(request.body)
        #expect(try unzipped(packed) == body)
        if !isRandom, byteCount > 1_000 { #expect(packed.count < byteCount / 100) }
        #expect(post.body(body).gzipped().body == packed)
    }

    @Test func codingsAreListedInTheirOrder() {
        #expect(
            post.body("x").header("Content-Encoding", "br").gzipped().headerFields["Content-Encoding"] == "br, gzip")
        #expect(post.body("x").gzipped().gzipped().headerFields["Content-Encoding"] == "gzip, gzip")
    }

    @Test func onlyABodyInMemoryIsCompressed() throws {
        #expect(post.gzipped().defect?.contains("no body to compress") == true)
        let others = [
            post.body(fromFile: URL(filePath: "/dev/null")), post.body { nil }, post.body(Chunks.of(Data())),
            post.multipart(MultipartForm()),
        ]
        for request in others { #expect(request.gzipped().defect?.contains("in memory") == true) }
        // The first defect is reported, because it names the cause.
        #expect(post.json(Double.infinity, encoder: JSONEncoder()).gzipped().defect?.contains("JSON") == true)
    }
}
