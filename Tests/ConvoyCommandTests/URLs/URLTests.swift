import ConvoyHTTPFile
import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

/// Compares the parsing of URLs with the URL standard and with curl.
@Suite struct URLTests {
    /// A URL, and the target that Convoy sends; nil for a rejected URL.
    struct Case {
        let input: String
        let target: String?
    }

    static let sent = URLCases.sent.split(whereSeparator: \.isWhitespace).reduce(into: [Case]()) { cases, word in
        // The spelling of the URL before.
        let input = word.hasPrefix("=") ? cases.removeLast().input : unescaped(word)
        cases.append(Case(input: input, target: wire(word.hasPrefix("=") ? unescaped(word.dropFirst()) : input)))
    }

    static let refused = (URLCases.refused.split(whereSeparator: \.isWhitespace).map(unescaped) + controls).map {
        Case(input: $0, target: nil)
    }

    /// Hosts with each control character, except those that a browser removes, and with its escape.
    private static let controls =
        (0x01...0x1F).filter { ![0x09, 0x0A, 0x0D].contains($0) }.map { "http://a\(Unicode.Scalar(UInt8($0)))b/" }
        + (0x00...0x1F).map { "http://ho" + String(format: "%%%02X", $0) + "st/" }

    static let differing: [Case] = {
        var (cases, choice) = ([Case](), Substring?.none)
        for line in URLCases.differing.split(separator: "\n") {
            if let match = line.prefixMatch(of: /# (?:([a-z]+):)?/) {
                choice = match.1 ?? choice
                continue
            }
            let fields = line.split(separator: " ").map { $0 == "-" || $0 == "?" ? nil : wire(unescaped($0)) }
            let target: String? =
                switch choice {
                case "standard": fields[1]
                case "curl": fields[2]
                case "own": fields.count > 3 ? fields[3] : nil
                default: nil
                }
            cases.append(Case(input: unescaped(line.prefix { $0 != " " }), target: target))
        }
        return cases
    }()

    private static func unescaped(_ text: Substring) -> String {
        let parts = text.components(separatedBy: "\\u")
        let rest = parts.dropFirst().flatMap { [UInt16($0.prefix(4), radix: 16) ?? 0xFFFD] + $0.dropFirst(4).utf16 }
        return String(decoding: Array(parts[0].utf16) + rest, as: UTF16.self)
    }

    /// Returns the sent form of a URL: without a user name, with the port, and with forbidden characters
    /// percent-encoded.
    ///
    /// For a server, escapes of those characters mean the same. Browsers and curl send `[` or a lone `%` unescaped.
    private static func wire(_ url: String) -> String {
        let text = String(url.prefix { $0 != "#" })
        guard let start = text.range(of: "://") else { return text }
        let authority = text[start.upperBound...].prefix { $0 != "/" && $0 != "?" }
        var place = String(authority.split(separator: "@", omittingEmptySubsequences: false).last ?? "").lowercased()
        var port = text.hasPrefix("https:") ? "443" : "80"
        if let match = place.firstMatch(of: /:([0-9]*)$/) {
            if let number = Int(match.1) { port = String(number) }
            place = String(place[..<match.range.lowerBound])
        }
        if place.hasPrefix("["), let name = HostName(place) { place = name.text }
        let target = PercentEscaper.url.escaped(String(text[authority.endIndex...]))
            .replacing(/%[0-9a-f]{2}/.ignoresCase()) { $0.0.uppercased() }
        return text[..<start.upperBound] + place + ":" + port + (target.hasPrefix("/") ? "" : "/") + target
    }

    /// Returns the target that the library sends; nil if the library rejects the URL.
    private static func ours(_ input: String) -> String? {
        guard let url = input.requestURL, case .success(let origin) = url.origin else { return nil }
        return wire(origin + url.target.text)
    }

    @Test func convoyAgreesWithTheStandardAndCurlOrDiffersForAReason() {
        #expect(Self.sent.count > 70 && Self.refused.count > 100 && Self.differing.count > 50)
        for one in Self.sent + Self.refused + Self.differing {
            #expect(Self.ours(one.input) == one.target, "\(one.input.debugDescription)")
        }
    }

    #if os(Linux)
        @Test func theParsedURLIsSent() async throws {
            let server = try TestServer()
            server.respond { _ in .status(200) }
            var configuration = RequestManager.Configuration()
            let url = try #require(URL(string: "http://127.0.0.1:\(server.port)"))
            var options = ConnectionOptions()
            options.proxy = .server(url)
            configuration.transport = .custom(try CurlTransport(options))
            let manager = RequestManager(configuration: configuration)
            for one in Self.sent + Self.differing {
                guard let expected = Self.ours(one.input), expected.hasPrefix("http://") else { continue }
                _ = try await manager.send(.get(one.input))
                let target = try await server.takeRequest().target
                // libcurl omits an empty query.
                #expect([expected, expected + "?"].contains(Self.wire(target)) || expected == Self.wire(target) + "?")
            }
        }
    #endif

    /// Files of requests and lists of URLs accept the same URLs as the library.
    @Test func filesAndListsReadAsTheLibraryDoes() {
        for one in Self.sent + Self.refused + Self.differing where !one.input.contains("{{") {
            let url = one.input.requestURL.flatMap { (try? $0.origin.get()) == nil ? nil : $0 }
            guard one.input.contains("://") else { continue }
            if case .request(let listed) = InputLine(url: one.input) {
                #expect(listed.url == url, "\(one.input.debugDescription)")
            } else {
                #expect(url == nil, "\(one.input.debugDescription)")
            }
            // In a file of requests, a line end or a blank ends the URL, so URLs that contain one are skipped.
            guard one.input.unicodeScalars.allSatisfy({ $0.value > 0x20 && !$0.properties.isWhitespace }) else {
                continue
            }
            let plan = RunPlan(HTTPFileReader.read("GET \(one.input)\n"), Surroundings())
            let built = plan.problems.isEmpty ? try? plan.requests.first?.build(Surroundings()) : nil
            #expect(built?.url == url?.absoluteString, "\(one.input.debugDescription) \(plan.problems)")
        }
    }
}
