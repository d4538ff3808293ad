import Convoy
import Foundation

/// A random request, and the secret that must never be shown.
struct HostileRequest: Sendable {
    let number: Int
    let request: Request<Data>
    /// A text that is part of every secret.
    let secret: String

    /// - Parameters:
    ///   - base: the scheme, host and port.
    ///   - directory: the directory for the files of bodies.
    init(_ number: Int, base: String, directory: TemporaryDirectory, _ random: inout SeededGenerator) throws {
        self.number = number
        secret = "sekret\(number)x"
        let method = Self.methods.randomElement(using: &random) ?? "GET"
        var authority = base
        if random.chance(1, of: 8) {
            authority = base.replacing(
                "://", with: "://\(Self.userNames.randomElement(using: &random) ?? "")\(secret):\(secret)@")
        }
        // Some of the parts must be encoded before they can be parts of URLs.
        let path = Self.pathParts.sample(0...4, &random).joined()
        let query = random.chance(1, of: 2) ? "?" + Self.pathParts.sample(0...3, &random).joined() : ""
        let fragment = random.chance(1, of: 16) ? "#it's" : ""
        var request = Request<Data>(
            method: HTTPMethod(method), url: "\(authority)/\(number)/\(path)\(query)\(fragment)")
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            let name = Self.names.randomElement(using: &random) ?? "X"
            request = request.addingHeader(name, Self.values.sample(0...4, &random).joined())
        }
        if random.chance(1, of: 3) {
            request = request.header("Authorization", Self.values.sample(0...2, &random).joined() + secret)
        }
        if random.chance(1, of: 3) { request = request.header("cookie", "a=\(secret); b='\(secret)") }
        if random.chance(1, of: 3) { request = request.secretHeader("X-Key", "$(\(secret))") }
        if random.chance(1, of: 6) { request = request.header("Referer", "https://me:\(secret)@example.org/it's") }
        if method != "HEAD" { request = try Self.withBody(request, number, directory, &random) }
        // The transport computes the length itself, whatever the request contains.
        if let body = request.body, random.chance(1, of: 8) {
            request = request.header("Content-Length", "\(body.count)")
        }
        self.request = request.acceptableStatusCodes(.any)
    }

    private static func withBody(
        _ request: Request<Data>, _ number: Int, _ directory: TemporaryDirectory, _ random: inout SeededGenerator
    ) throws -> Request<Data> {
        let type = [nil, "text/plain", "", "a'b"].randomElement(using: &random) ?? nil
        let text = bodyParts.sample(0...8, &random).joined()
        switch Int.random(in: 0..<40, using: &random) {
        case 0..<12: return request
        case 12..<24: return request.body(Data(text.utf8), contentType: type)
        case 24..<29: return request.body(Data(values.sample(0...6, &random).joined().utf8), contentType: type)
        case 29..<34:
            let bytes = (0..<Int.random(in: 0...600, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            return request.body(Data(bytes), contentType: type)
        case 34:
            let long = String(repeating: "it's 100 %\\n!\n", count: Int.random(in: 1...1_100, using: &random))
            return request.body(Data(long.utf8), contentType: type)
        default:
            let file = directory.file((fileNames.randomElement(using: &random) ?? "") + "\(number)'\n")
            try Data(text.utf8).write(to: file)
            return request.body(fromFile: file, contentType: type)
        }
    }

    private static let methods = [
        "GET", "GET", "GET", "GET", "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "-X", "X'Y",
        "$A", "`id`", "!!", "a%b", "*", "~", "A|B&C", "get",
    ]
    private static let userNames = ["", "-", "it's", "$USER", "%27", "!!"]
    private static let names = [
        "Accept", "User-Agent", "Accept-Language", "Accept-Encoding", "Range", "X-It's", "X-`id`", "X-$HOME", "X-%s",
        "!", "x-a|b&c", "X", "X", "-H", "content-type", "If-Match",
    ]
    private static let pathParts = [
        "a", "/", "/../", "/./", "..", "'", "\"", "\\", "!", "!!", "$(touch pwned)", "`touch pwned`", ";touch pwned;",
        "&", "|", "<pwned", ">pwned", "*", "?", "%5Ba-z%5D", "{a,b}", "~", "%27", "%2e%2e/", "%00", "%0a", "%", "%s",
        "é", "😀", "-", "--", "@", ":", "//", "=", "+", " ", "(", ")", ",", "\u{202E}",
    ]
    /// Parts of header field values; a value may have every character except CR, LF and NUL.
    static let values = [
        "a", " ", "'", "''", "\"", "\\", "\\'", "\\012", "!", "!!", "!$", "$(touch pwned)", "`touch pwned`",
        "'; touch pwned; '", "'\u{301}", "'\u{FE0F}; touch pwned; '\u{301}", "\"\u{301}", "\\\u{301}", "${HOME}", "~",
        "*", "?", "[a]", "{a,b}", ";", "&", "|", "<", ">", "#", " # ", "%", "%s", "%n", "%%", "@/etc/passwd", "-", "-o",
        "--next", "\t", "\u{1B}[201~", "\u{15}touch pwned", "\u{3}", "\u{4}", "\u{7F}", "\u{85}", "\u{2028}",
        "\u{202E}", "\u{200D}", "é", "😀", ":", ",", "=", "{{a}}",
    ]
    private static let bodyParts =
        values + [
            "\n", "\r\n", "\n\n", "\0", "\n'\ntouch pwned\n'", "\nEOF\n", "@", "@-", "@/etc/passwd",
            "{\"a\": \"it's\"}", "a=b&c=%20",
        ]
    private static let fileNames = [
        "-", "@", "it's", "it'\u{301}s", "a b", "$HOME", "\n", "`id`", "\u{1B}", "é", "%41", "\\",
    ]
}

extension HostileRequest {
    static func make(
        _ count: Int, base: String, directory: TemporaryDirectory, seed: UInt64
    ) async throws -> [HostileRequest] {
        try await offPool {
            Result {
                var random = SeededGenerator(seed: seed)
                return try (1...count).map { try HostileRequest($0, base: base, directory: directory, &random) }
            }
        }.get()
    }
}

extension SeededGenerator {
    mutating func chance(_ count: Int, of all: Int) -> Bool { Int.random(in: 0..<all, using: &self) < count }
}

extension [String] {
    func sample(_ count: ClosedRange<Int>, _ random: inout SeededGenerator) -> [String] {
        (0..<Int.random(in: count, using: &random)).map { _ in self[Int.random(in: indices, using: &random)] }
    }
}
