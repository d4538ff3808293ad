import Foundation
import Testing

/// Puts secrets into every place of a file of requests, and searches all output of `convoy run` for them.
@Suite final class SecretSearchRunningTests: CommandTests {
    private let other: TestServer

    override init() throws {
        other = try TestServer()
        try super.init()
        SecretMixture.answer(with: server, and: other)
    }

    @Test(arguments: [
        ["--json", "--retries", "1"], ["-v", "--retries", "0"], ["--json", "-v", "--serial", "--retries", "0"],
        ["--quiet", "--retries", "0"],
    ])
    func secretsAreInNothingThatIsSaid(arguments: [String]) async throws {
        let mixture = SecretMixture(seed: UInt64(arguments.count), ports: [server.port, other.port])
        let file = try write(mixture.file, to: "a.http")
        let reports = ["--har": "a.har", "--report": "a.html", "--junit": "a.xml"]
        let options = reports.flatMap { [$0.key, path($0.value)] }
        let ending = try await convoy("run", "-j", "64", "--per-host", "32", arguments, options, file, status: 1)
        #expect(ending.errors.utf8.count + ending.output.utf8.count > 1_000)
        SecretMixture.expectNone(in: ending.output, "standard output")
        SecretMixture.expectNone(in: ending.errors, "standard error")
        for name in reports.values {
            let text = try content(name)
            #expect(text.utf8.count > 1_000)
            SecretMixture.expectNone(in: text, name)
        }
        mixture.expectMeant([server, other])
        let plan = try await convoy("run", "--dry-run", file)
        SecretMixture.expectNone(in: plan.output + plan.errors, "the plan")
    }

    @Test func theSecretOfAProxyIsItsOwn() async throws {
        let proxy = try TestServer()
        proxy.respond {
            .status($0.path == "/a" ? 407 : 503, headerFields: [("Proxy-Authenticate", "Basic realm=\"p\"")])
        }
        let requests = "GET http://h.example/a\n###\nGET https://h.example/b\n###\nGET http://h.example/c\n"
        let address = "http://me:hUnT3r.1.proxy.@127.0.0.1:\(proxy.port)"
        let ending = try await run(requests)("--retries", "1", "-v", "--har", path("a.har"), "-x", address, status: 1)
        #expect(proxy.recordedRequests.contains { $0.value(of: "Proxy-Authorization") != nil })
        SecretMixture.expectNone(in: ending.output + ending.errors, "what was said")
        SecretMixture.expectNone(in: try content("a.har"), "the archive")
    }
}

/// A file of requests with secrets at random places.
struct SecretMixture {
    /// The number of requests, from `CONVOY_SECRETS`.
    static let count = ProcessInfo.processInfo.environment["CONVOY_SECRETS"].flatMap { Int($0) } ?? 60

    let file: String
    /// The index of the server for each request; the first request has number 1.
    private let homes: [Int]

    init(seed: UInt64, ports: [Int]) {
        var random = SeededGenerator(seed: seed)
        var (text, homes) = ("", [Int]())
        for number in 1...Self.count {
            let home = Int.random(in: 0...1, using: &random)
            homes.append(home)
            func has() -> Bool { Bool.random(using: &random) }
            func secret(_ place: String) -> String { "hUnT3r.\(number).\(place)." }
            let steps = (0..<Int.random(in: 0...2, using: &random)).compactMap { _ in
                ["here", "elsewhere302", "elsewhere307"].randomElement(using: &random)
            }
            let end = ["there", "there", "busy", "denied", "none", "lost", "cut"].randomElement(using: &random) ?? ""
            let hasBody = has()
            text += "### request \(number)\n\(hasBody ? "PUT" : "GET") http://"
            text += has() ? "me:\(secret("url"))@" : ""
            text += "127.0.0.1:\(ports[home])/\((steps + [end]).joined(separator: "/"))"
            text += has() ? "?page=1&access_token=\(secret("query"))\n" : "\n"
            if has() {
                text += "Authorization: \(Bool.random(using: &random) ? "Bearer " : "Basic me:")"
                text += secret("authorization") + "\n"
            }
            if has() { text += "Cookie: sid=\(secret("cookie"))\n" }
            if has() { text += "X-Api-Key: \(secret("key"))\n" }
            if hasBody {
                text +=
                    "Content-Type: application/x-www-form-urlencoded\n\ngrant_type=a&client_secret=\(secret("body"))\n"
            }
        }
        (file, self.homes) = (text, homes)
    }

    /// Makes two servers redirect to each other.
    static func answer(with first: TestServer, and second: TestServer) {
        let ports = (first.port, second.port)
        first.respond { answer($0, "127.0.0.1:\(ports.1)") }
        second.respond { answer($0, "127.0.0.1:\(ports.0)") }
    }

    /// Returns the response that the first word of the path selects; a redirect leads to the other words.
    private static func answer(_ request: RecordedRequest, _ other: String) -> Reply {
        let words = request.path.split(separator: "/").map(String.init)
        let rest = "/" + words.dropFirst().joined(separator: "/")
        let cookie = ("Set-Cookie", "sid=hUnT3r.0.cookie.")
        switch words.first {
        case "here": return .status(307, headerFields: [("Location", rest), cookie])
        case "elsewhere302", "elsewhere307":
            let place = "http://me:hUnT3r.0.location.@\(other)\(rest)?access_token=hUnT3r.0.location."
            return .status(words[0] == "elsewhere302" ? 302 : 307, headerFields: [("Location", place)])
        case "busy": return .status(503, headerFields: [("Retry-After", "0"), cookie])
        case "denied": return .status(401, headerFields: [("WWW-Authenticate", "Bearer realm=\"a\"")], body: "no")
        case "none": return .status(404, body: "no such thing")
        case "lost": return .status(200).disconnecting(afterBytes: 0)
        case "cut": return .status(200, body: "0123456789").disconnecting(afterBytes: 4)
        default: return .status(200, headerFields: [cookie], body: "there")
        }
    }

    /// Expects no secret in the text, in plain form or in the Base64 of `Basic me:`.
    static func expectNone(in text: String, _ name: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for mark in ["hUnT3r", "aFVuVDNy"] {
            guard let range = text.range(of: mark) else { continue }
            let start = text.index(range.lowerBound, offsetBy: -200, limitedBy: text.startIndex) ?? text.startIndex
            Issue.record("a secret is in \(name): \(text[start...].prefix(300))", sourceLocation: sourceLocation)
        }
    }

    /// Expects that no secret reached another server than its own; but a 307 sends the body to the new server.
    func expectMeant(_ servers: [TestServer], sourceLocation: SourceLocation = #_sourceLocation) {
        var found = 0
        for (index, server) in servers.enumerated() {
            for request in server.recordedRequests {
                let basic = request.value(of: "Authorization").flatMap { Data(base64Encoded: String($0.dropFirst(6))) }
                let text =
                    "\(request.target) \(request.headerFields) \(request.bodyText) "
                    + String(decoding: basic ?? Data(), as: UTF8.self)
                for match in text.matches(of: /hUnT3r\.([0-9]+)\.([a-z]+)\./) {
                    guard let number = Int(match.1), number > 0 else { continue }
                    found += 1
                    #expect(
                        homes[number - 1] == index || match.2 == "body", "\(match.0) reached server \(index)",
                        sourceLocation: sourceLocation)
                }
            }
        }
        #expect(found > homes.count, sourceLocation: sourceLocation)
    }
}
