// Damages valid responses at random.
import Foundation

@testable import Convoy

/// Damages valid responses, as a function of a seed.
struct ReplyMutator {
    private var random: SeededGenerator
    private let target: String

    /// - Parameters:
    ///   - seed: equal seeds give equal responses.
    ///   - target: the target of redirects.
    init(seed: UInt64, redirectingTo target: String) {
        random = SeededGenerator(seed: seed)
        self.target = target
    }

    /// Returns the raw bytes, and whether the connection ends after them.
    mutating func makeReply() -> (bytes: Data, closes: Bool) {
        var (lines, body) = validReply()
        let count = below(8) == 0 ? 0 : 1 + below(3)
        for _ in 0..<count where below(2) == 0 { changeHeader(&lines) }
        if below(3) == 0 { changeBody(&body) }
        var bytes = lines.reduce(into: Data()) { $0.append($1) }
        bytes.append(body)
        for _ in 0..<count where below(3) == 0 { changeBytes(&bytes) }
        return (bytes, below(4) != 0)
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
    private mutating func one<Element>(of list: [Element]) -> Element { list[below(list.count)] }

    private static func line(_ text: String) -> Data { Data((text + "\r\n").utf8) }

    private static let gzip =
        Data(base64Encoded: "H4sIAAAAAAACA0vOzyvLr1RIHqVGqVFqlBqlRqlRapTCRwEAiHc6/zQIAAA=") ?? Data()

    // MARK: Valid replies

    private mutating func validReply() -> (lines: [Data], body: Data) {
        let body = Data((0..<below(3_000)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 33) })
        let more = (0..<below(4)).map { "X-\($0): \(String(repeating: "v", count: 1 + $0 * 40))" }
        func reply(_ status: String, _ fields: [String], _ body: Data = Data()) -> ([Data], Data) {
            (([status] + more + fields + [""]).map(Self.line), body)
        }
        switch below(10) {
        case 0...2: return reply("HTTP/1.1 200 OK", ["Content-Length: \(body.count)"], body)
        case 3, 4: return reply("HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"], chunked(body))
        case 5: return reply("HTTP/1.1 200 OK", ["Connection: close"], body)
        case 6:
            let fields = ["Content-Encoding: gzip", "Content-Length: \(Self.gzip.count)"]
            return reply("HTTP/1.1 200 OK", fields, Self.gzip)
        case 7:
            let (lines, body) = reply("HTTP/1.1 200 OK", ["Content-Length: \(body.count)"], body)
            return (["HTTP/1.1 103 Early Hints", "Link: </a>", ""].map(Self.line) + lines, body)
        case 8: return reply("HTTP/1.1 302 Found", ["Location: \(target)", "Content-Length: 5"], Data("moved".utf8))
        default: return reply(one(of: ["HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified"]), [])
        }
    }

    private mutating func chunked(_ body: Data) -> Data {
        var (rest, bytes) = (body[...], Data())
        while !rest.isEmpty {
            let chunk = rest.prefix(1 + below(900))
            bytes += Self.line(String(chunk.count, radix: 16)) + chunk + Self.line("")
            rest = rest.dropFirst(chunk.count)
        }
        return bytes + Self.line("0") + (below(3) == 0 ? Self.line("X-Trailer: t") : Data()) + Self.line("")
    }

    // MARK: Damage

    private static let fields = [
        "Content-Length: 0", "Content-Length: 5", "Content-Length: -1", "Content-Length: 5, 5", "Content-Length: 5, 6",
        "Content-Length: 0x5", "Content-Length:", "Content-Length: 99999999999999999999", "Content-Length: 4 4",
        "Transfer-Encoding: chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity",
        "Transfer-Encoding : chunked", "Content-Encoding: gzip", "Content-Encoding: br", "Content-Encoding: x",
        "Content-Encoding: deflate, gzip", "Connection: close", "Connection: keep-alive, close", "Location: /else",
        "Location: http://[", "Location:", "Retry-After: 0", "Set-Cookie: a=b; Path=/", "Upgrade: h2c", "Trailer: X",
        "WWW-Authenticate: Basic realm=\"", "Alt-Svc: h3=\":1\"", "Strict-Transport-Security: max-age=1", "X-A", ": b",
        "X\0: b", "X-A: a\0b", "X A: b",
    ]

    private mutating func changeHeader(_ lines: inout [Data]) {
        guard lines.count > 1 else { return }
        let index = below(lines.count)
        switch below(10) {
        case 0:
            lines.insert(Self.line(one(of: [" folded: \(String(repeating: "z", count: 70))", "\tf", " "])), at: index)
        case 1: lines.insert(Self.line(" folded: \(String(repeating: "z", count: 1 + below(200)))"), at: 1)
        case 2: lines.insert(lines[index], at: below(lines.count))
        case 3: lines.remove(at: index)
        case 4: lines.swapAt(index, below(lines.count))
        case 5:
            lines[index] = lines[index].dropLast(2) + one(of: [Data([10]), Data([13]), Data(), Data([13, 13, 10])])
        case 6:
            let status = one(of: [
                "100", "101", "204", "205", "206", "304", "999", "099", "-200", "302", "407", "503", "",
            ])
            let version = one(of: ["HTTP/1.1", "HTTP/1.0", "HTTP/2", "http/1.1", "HTTP/0.9", "ICY", " HTTP/1.1"])
            lines[0] = Self.line("\(version) \(status) Status")
        case 7: lines.insert(Self.line("X-Long: " + String(repeating: "l", count: below(20_000))), at: index)
        default: lines.insert(Self.line(one(of: Self.fields)), at: max(1, index))
        }
    }

    private mutating func changeBody(_ body: inout Data) {
        switch below(5) {
        case 0: body += Data("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".utf8)
        case 1: body = body.prefix(below(body.count + 1))
        case 2:
            let size = one(of: [
                "g", "-5", "FFFFFFFFFFFFFFFFF", "5;a=\"b", "0x5", " 5", "7fffffffffffffff", "00000005", "",
            ])
            body = Self.line(size) + body
        case 3: body = Data(String(decoding: body.prefix(40), as: UTF8.self).uppercased().utf8) + body.dropFirst(40)
        default: body.append(contentsOf: (0..<below(40)).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    private mutating func changeBytes(_ bytes: inout Data) {
        guard !bytes.isEmpty else { return }
        // More than half of the faults are in the first 200 bytes, where the client makes most decisions.
        let place = below(below(2) == 0 ? bytes.count : min(bytes.count, 200))
        let index = bytes.startIndex + place
        switch below(5) {
        case 0: bytes[index] ^= 1 << UInt8(below(8))
        case 1: bytes = bytes.prefix(place)
        case 2: bytes[index] = UInt8(one(of: [0, 9, 10, 11, 13, 27, 127, 255]))
        case 3: bytes.insert(UInt8(below(256)), at: index)
        default: bytes.removeSubrange(index..<min(index + 1 + below(30), bytes.endIndex))
        }
    }
}
