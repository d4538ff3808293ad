import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests that a repeated field line is not parsed again and has the same result.
    @Suite struct FieldLineCacheTests {
        private func isKept(_ line: String, readTimes: Int) -> Bool {
            let cache = FieldLineCache()
            let field = HeaderFields.Field(name: String(line.prefix { $0 != ":" }), value: "value")
            return Array(line.utf8).withUnsafeBytes { bytes in
                for _ in 0..<readTimes { cache.note(bytes, field) }
                return cache.field(of: bytes) == field
            }
        }

        @Test func aLineIsKeptWhenItComesTwice() {
            #expect(!isKept("Server: nginx", readTimes: 1))
            #expect(isKept("Server: nginx", readTimes: 2))
        }

        @Test(arguments: ["Set-Cookie: id=1", "Authorization: Bearer x"])
        func aSecretIsNotKept(_ line: String) { #expect(!isKept(line, readTimes: 3)) }

        /// Parses lines of every kind in random order, with a shared cache and without one.
        @Test func aParserReadsTheSameWithACache() throws {
            let lines = [
                "Server: nginx", "server:nginx", "Date: today", "ETag: \"1\"", "ETag: \"2\"", "Content-Length: 5",
                "Content-Length: 7", "Content-Length: x", "Transfer-Encoding: chunked", "Content-Encoding: gzip",
                "Location: /a", "Location: /b", "Set-Cookie: id=1", " folded", "no colon", "X:\u{0}", "X: \u{FC}", "X:",
                "bad name: x", ": x",
            ]
            var random = SeededGenerator(seed: 31)
            let cache = FieldLineCache()
            var options = ConnectionOptions()
            options.maxHeaderFieldCount = 4
            for _ in 0..<3_000 {
                var plain = CurlHeaderParser(options)
                var cached = plain
                let count = Int.random(in: 0...5, using: &random)
                let header = (0..<count).map { _ in lines.randomElement(using: &random) ?? "" }
                for line in ["HTTP/1.1 200 OK"] + header + [""] {
                    let bytes = Array((line + "\r\n").utf8)
                    let outcomes = bytes.withUnsafeBytes { bytes in
                        (Result { try plain.take(bytes) }, Result { try cached.take(bytes, cache) })
                    }
                    switch outcomes {
                    case (.success(let left), .success(let right)): #expect(left == right, "\(header)")
                    case (.failure(let left), .failure(let right)):
                        let reasons = [left, right].map { ($0 as? CurlHeaderParser.Defect)?.reason }
                        #expect(reasons[0] == reasons[1], "\(header)")
                    default: Issue.record("a cache makes a difference for \(header)")
                    }
                    guard case (.success, .success) = outcomes else { break }
                }
                #expect(plain.hasContentCoding == cached.hasContentCoding)
            }
        }
    }
#endif
