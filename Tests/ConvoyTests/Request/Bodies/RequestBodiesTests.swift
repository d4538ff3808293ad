import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RequestBodiesTests {
    private let post = Request<Data>.post("http://stub/")

    private func prepared(_ request: Request<Data>) throws -> PreparedRequest {
        try PreparedRequest(request.core, baseURL: nil)
    }

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

    /// Request smuggling uses both `Content-Length` and `Transfer-Encoding`, or one of them twice.
    @Test func framingThatIsNotTrueIsRefused() async throws {
        let (four, stream) = (post.body("four"), post.body { InputStream(data: Data()) })
        let server = StubServer()
        for length in ["5", "0", "3, 4", "", "-4", "four", "18446744073709551620"] {
            let error = try await Sending(four.header("content-length", length), over: server.transport).error()
            #expect(error.code == .invalidRequest)
            #expect(error.message.contains("Content-Length is set by the transport"))
        }
        for request in [
            four.header("Transfer-Encoding", "chunked"), stream.header("Content-Length", "4"),
            stream.header("Transfer-Encoding", "gzip, chunked"), stream.header("Transfer-Encoding", "identity"),
            four.addingHeader("Content-Length", "4").addingHeader("Content-Length", "4"),
        ] {
            #expect(try await Sending(request, over: server.transport).error().code == .invalidRequest)
        }
        #expect(server.exchanges.count == 0)
        #expect(try prepared(four.header("Content-Length", "4")).body?.byteCount == 4)
        #expect(try prepared(stream.header("Transfer-Encoding", "chunked")).body != nil)
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
        #expect(post.body(byteCount: -1) { nil }.defect?.contains("negative") == true)
        #expect(post.body(Chunks.of(Data()), byteCount: -1).defect?.contains("negative") == true)
    }

    @Test(
        arguments: [
            ("a.png", "image/png"), ("A.PNG", "image/png"), ("a.tar.gz", "application/gzip"), ("a.jpeg", "image/jpeg"),
            ("noextension", nil), ("a.", nil), ("", nil), (".json", "application/json"), ("a.unheard-of", nil),
            ("a.b/c", nil), ("a.JSON\u{301}", nil), ("日本.txt", "text/plain"),
        ] as [(String, String?)])
    func typeFollowsTheName(_ name: String, _ type: String?) {
        #expect(ContentType.of(fileName: name) == type ?? "application/octet-stream")
    }

    private func unzipped(_ data: Data) throws -> Data {
        #if canImport(CLibcurl)
            let decoder = try #require(try ContentDecoder(codings: ["gzip"]))
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
        let coded = post.body(body).header("Content-Encoding", "br").gzipped()
        #expect(coded.headerFields["Content-Encoding"] == "br, gzip")
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

struct ReceivedPart: Equatable, Sendable {
    var name: String
    var fileName: String?
    var contentType: String?
    var content: Data
}

/// An independent parser of forms: it reads RFC 7578 strictly and shares no code with the writer.
enum FormParser {
    struct Malformed: Error {
        let what: String
    }

    /// Parses a body, and rejects every deviation from the format.
    static func parse(_ body: Data, contentType: String) throws -> [ReceivedPart] {
        let prefix = "multipart/form-data; boundary="
        guard contentType.hasPrefix(prefix) else { throw Malformed(what: contentType) }
        let given = contentType.dropFirst(prefix.count)
        let boundary = given.hasPrefix("\"") && given.hasSuffix("\"") ? given.dropFirst().dropLast() : given
        let delimiter = Data("\r\n--\(boundary)".utf8)
        // The first delimiter needs no line end before it (RFC 2046, section 5.1.1).
        var rest = Data("\r\n".utf8) + body
        guard rest.starts(with: delimiter) else { throw Malformed(what: "no delimiter at the beginning") }
        rest = rest.dropFirst(delimiter.count)
        var parts: [ReceivedPart] = []
        while !rest.starts(with: Data("--\r\n".utf8)) {
            guard rest.starts(with: Data("\r\n".utf8)), let end = rest.range(of: delimiter) else {
                throw Malformed(what: "no delimiter behind part \(parts.count)")
            }
            parts.append(try part(rest[rest.startIndex + 2..<end.lowerBound]))
            rest = rest[end.upperBound...]
        }
        guard rest.count == 4 else { throw Malformed(what: "\(rest.count - 4) bytes behind the end") }
        return parts
    }

    private static func part(_ bytes: Data) throws -> ReceivedPart {
        guard let end = bytes.range(of: Data("\r\n\r\n".utf8)) else { throw Malformed(what: "no empty line") }
        // CR and LF form one `Character`, so each line is checked by Unicode scalars.
        let lines = try #require(String(data: bytes[..<end.lowerBound], encoding: .utf8)).components(
            separatedBy: "\r\n")
        var part = ReceivedPart(name: "", content: Data(bytes[end.upperBound...]))
        var disposition: String?
        for line in lines {
            guard !line.unicodeScalars.contains(where: { $0 == "\r" || $0 == "\n" || $0 == "\0" }),
                let colon = line.range(of: ": ")
            else { throw Malformed(what: "line \(line.debugDescription)") }
            let value = String(line[colon.upperBound...])
            switch line[..<colon.lowerBound] {
            case "Content-Disposition" where disposition == nil: disposition = value
            case "Content-Type" where part.contentType == nil: part.contentType = value
            default: throw Malformed(what: "field \(line)")
            }
        }
        guard let disposition, disposition.hasPrefix("form-data; name=\"") else { throw Malformed(what: "\(lines)") }
        // A quotation mark ends a value, whatever precedes it.
        let pieces = disposition.split(separator: "\"", omittingEmptySubsequences: false).map(String.init)
        switch pieces.count {
        case 3 where pieces[2].isEmpty: break
        case 5 where pieces[2] == "; filename=" && pieces[4].isEmpty: part.fileName = unescaped(pieces[3])
        default: throw Malformed(what: disposition)
        }
        part.name = unescaped(pieces[1])
        return part
    }

    // The search is literal, because a digit and a following combining mark form one character.
    private static func unescaped(_ text: String) -> String {
        text.replacingOccurrences(of: "%22", with: "\"", options: .literal)
    }
}

extension MultipartForm {
    /// The bytes as they would be sent; their number must be the announced length.
    func rendered(bufferSize: Int = 4_096, sourceLocation: SourceLocation = #_sourceLocation) throws -> Data {
        let body = try prepared().get()
        let bytes = try body.readAll(bufferSize: bufferSize)
        #expect(body.byteCount == Int64(bytes.count), sourceLocation: sourceLocation)
        return bytes
    }

    func received(sourceLocation: SourceLocation = #_sourceLocation) throws -> [ReceivedPart] {
        try FormParser.parse(rendered(sourceLocation: sourceLocation), contentType: contentType)
    }
}
