import Foundation
import Testing

@testable import Convoy

/// The reader of a field's value, pieces of such values, and what is true of every text.
struct FieldReader: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let pieces: [String]
    let isRead: @Sendable (String) -> Bool

    init(_ name: String, _ pieces: [String], isRead: @escaping @Sendable (String) -> Bool) {
        (testDescription, self.pieces, self.isRead) = (name, pieces, isRead)
    }

    static let challenges = FieldReader(
        "WWW-Authenticate",
        [
            "Basic", "Digest", "Negotiate", " ", " ", ",", ", ", "=", "\"", "\\", "realm=\"r\"", "nonce=\"n\"",
            "qop=auth", "qop=\"auth-int\"", "stale=true", "algorithm=SHA-256", "algorithm=MD5-sess", "userhash=true",
            "abc==", "\u{E9}", "\u{1}", "\r\n", "\u{0}", "\t", "nonce=", "realm=\"", ";",
        ]
    ) { AuthenticationChallenge.all(in: [$0]).allSatisfy(\.scheme.isHTTPToken) }

    private static let sha256 = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="

    static let all: [FieldReader] = [
        challenges,
        FieldReader(
            "Content-Disposition",
            [
                "attachment", ";", " ", "filename", "*", "=", "\"", "\\", "UTF-8", "iso-8859-1", "'", "%", "41", "C3",
                "FF", "a", "\u{0}", "é", "\u{C3}", "\u{A9}", "\u{301}", "/", ",", "; filename*=UTF-8''%",
            ]
        ) { text in
            ["", "a; filename=", "a; filename=\"", "a; filename*=UTF-8''"].allSatisfy { start in
                HeaderFields([("content-disposition", start + text)]).proposedFileName != ""
            }
        },
        FieldReader(
            "Content-Range",
            [
                "5", "9", "5-9", "9223372036854775806", "9223372036854775807", "9223372036854775808", "-", "/", "/100",
                "/*", "*", "é", "bytes ", "\u{301}",
            ]
        ) { text in
            guard let read = ContentRange("bytes " + text) else { return true }
            guard let range = read.range else { return read.totalBytes != nil }
            return !range.isEmpty && range.lowerBound >= 0 && range.upperBound <= read.totalBytes ?? .max
        },
        FieldReader(
            "Repr-Digest and Digest",
            ["sha-256=", "sha-512=", "=", ":", sha256, ":\(sha256):", ",", ", ", ";", "\"", "\\", "a", "é", "\u{0}"]
        ) { text in
            ["Repr-Digest", "Digest"].allSatisfy { name in
                let digest = HeaderFields([(name, text)]).representationDigest
                return digest == nil || digest == .ofBytes(Data("abc".utf8))
            }
        },
        FieldReader("Link", ["<", ">", ";", ",", "\"", "\\", "=", " ", "rel", "next", "/a", "*", "\u{0}", "é"]) {
            text in
            HeaderFields([("Link", text)]).links.count <= text.count { $0 == "<" }
        },
        FieldReader(
            "Retry-After",
            [
                "Sun", "Sunday", ", ", " ", "06", "-", "Nov", "94", "1994", "08:49:37", "GMT", "9", "0", "\u{0}", "ü",
                "Sun, 06 Nov ", "Sunday, 06-Nov-", "Sun Nov  6 08:49:37 ",
            ]
        ) { text in
            let head = ResponseHead(statusCode: 503, headerFields: ["Retry-After": text])
            let wait = head.retryAfter(now: Date(timeIntervalSince1970: 784_111_777)) ?? .zero
            return wait >= .zero && wait <= .seconds(31_536_000)
        },
        FieldReader(
            "Set-Cookie",
            ["a=1, ", "a=1;", ";", "=", ", ", ",", " ", "a=b; Domain=", "é", "\t;", "; Expires=1 1 1 1:1:1 ", ":"]
        ) { text in
            guard let url = URL(string: "https://example.com/") else { return false }
            let jar = CookieJar()
            jar.store(["Set-Cookie": text], from: url)
            return jar.cookies.count <= 1
        },
        FieldReader("Location", "ab:/?#.@[]%1é".map(String.init)) { URLReference($0).text == $0 },
    ]
}

/// No text of a server traps, breaks a promise of its reader, or takes more than linear time.
@Suite struct GarbageTests {
    @Test(arguments: FieldReader.all)
    func everyTextIsRead(_ reader: FieldReader) {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<LongRuns.count(3_000, long: 20_000) {
            let text = reader.pieces.sample(0...14, &random).joined()
            #expect(reader.isRead(text), "\(text.debugDescription)")
        }
    }

    @Test(arguments: FieldReader.all)
    func longTextCostsTimeInProportion(_ reader: FieldReader) {
        for piece in reader.pieces {
            #expect(reader.isRead(String(repeating: piece, count: 50_000 / piece.utf8.count)), "\(piece)")
        }
    }
}
