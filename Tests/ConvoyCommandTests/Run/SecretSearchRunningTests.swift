import ConvoyTesting
import Foundation
import Testing

/// Puts secrets into every place of a file of requests, and searches all output of `convoy run` for them.
@Suite struct SecretSearchRunningTests {
    /// The number of requests, from `CONVOY_SECRETS`.
    static let count = ProcessInfo.processInfo.environment["CONVOY_SECRETS"].flatMap { Int($0) } ?? 60

    private let directory: TemporaryDirectory
    private let servers: [TestServer]

    init() throws {
        directory = try TemporaryDirectory()
        let servers = [try TestServer(), try TestServer()]
        self.servers = servers
        for (index, server) in servers.enumerated() {
            let other = "127.0.0.1:\(servers[1 - index].port)"
            server.respond { SecretMixture.answer($0, other) }
        }
    }

    @Test(arguments: [
        ["--json", "--retries", "1"], ["-v", "--retries", "0"], ["--json", "-v", "--serial", "--retries", "0"],
        ["--quiet", "--retries", "0"],
    ])
    func secretsAreInNothingThatIsSaid(arguments: [String]) async throws {
        let mixture = SecretMixture(count: Self.count, seed: UInt64(arguments.count), ports: servers.map(\.port))
        let file = directory.url.appending(path: "a.http")
        try Data(mixture.file.utf8).write(to: file)
        let reports = ["--har": "a.har", "--report": "a.html", "--junit": "a.xml"]
        let options = reports.flatMap { [$0.key, directory.url.appending(path: $0.value).path] }
        let ending = try await ConvoyProcess(
            ["run", "-j", "64", "--per-host", "32"] + arguments + options + [file.path]
        ).ended()
        #expect(ending.status == 1, "\(ending.errors.prefix(500))")
        #expect(ending.errors.utf8.count + ending.output.utf8.count > 1_000)
        SecretMixture.expectNone(in: ending.output, "standard output")
        SecretMixture.expectNone(in: ending.errors, "standard error")
        for name in reports.values {
            let text = try String(contentsOf: directory.url.appending(path: name), encoding: .utf8)
            #expect(text.utf8.count > 1_000)
            SecretMixture.expectNone(in: text, name)
        }
        mixture.expectMeant(servers)
        let plan = try await ConvoyProcess(["run", "--dry-run", file.path]).ended()
        #expect(plan.status == 0)
        SecretMixture.expectNone(in: plan.output + plan.errors, "the plan")
    }

    @Test func theSecretOfAProxyIsItsOwn() async throws {
        let proxy = try TestServer()
        proxy.respond {
            .status($0.path == "/a" ? 407 : 503, headerFields: [("Proxy-Authenticate", "Basic realm=\"p\"")])
        }
        let file = directory.url.appending(path: "a.http")
        try Data("GET http://h.example/a\n###\nGET https://h.example/b\n###\nGET http://h.example/c\n".utf8).write(
            to: file)
        let har = directory.url.appending(path: "a.har")
        let ending = try await ConvoyProcess([
            "run", "--retries", "1", "-v", "--har", har.path, "-x", "http://me:hUnT3r.1.proxy.@127.0.0.1:\(proxy.port)",
            file.path,
        ]).ended()
        #expect(ending.status == 1)
        #expect(proxy.recordedRequests.contains { $0.value(of: "Proxy-Authorization") != nil })
        SecretMixture.expectNone(in: ending.output + ending.errors, "what was said")
        SecretMixture.expectNone(in: try String(contentsOf: har, encoding: .utf8), "the archive")
    }
}

/// A file of requests with secrets at random places.
struct SecretMixture {
    let file: String
    /// The index of the server for each request; the first request has number 1.
    private let homes: [Int]

    init(count: Int, seed: UInt64, ports: [Int]) {
        var random = SeededGenerator(seed: seed)
        var (text, homes) = ("", [Int]())
        for number in 1...count {
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

    /// Returns the response that the path describes.
    ///
    /// The path is a list of words. The first word selects the response. A redirect leads to the rest of the path.
    static func answer(_ request: RecordedRequest, _ other: String) -> Reply {
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

    /// Records an issue if the text contains a secret, in plain form or in the Base64 of `Basic me:`.
    static func expectNone(in text: String, _ name: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for mark in ["hUnT3r", "aFVuVDNy"] {
            guard let range = text.range(of: mark) else { continue }
            let start = text.index(range.lowerBound, offsetBy: -200, limitedBy: text.startIndex) ?? text.startIndex
            Issue.record("a secret is in \(name): \(text[start...].prefix(300))", sourceLocation: sourceLocation)
        }
    }

    /// Expects that no secret reached another server than its own.
    ///
    /// Secrets in bodies are exempt, because a 307 sends the body to the new server.
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
