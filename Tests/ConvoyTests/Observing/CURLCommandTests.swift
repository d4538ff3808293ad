import Foundation
import Testing

@testable import Convoy

/// Tests the text of the curl commands that requests are exported to.
///
/// `CURLWireTests` runs the commands.
@Suite struct CURLCommandTests {
    private static let added: String = {
        #if canImport(CLibcurl)
            "-H 'User-Agent: Convoy' -H 'Accept-Encoding: \(ContentDecoder.acceptedCodings)' "
        #else
            ""
        #endif
    }()

    @Test(arguments: [
        (Request<Data>.get("http://h/a?b=c"), "curl ", "--compressed 'http://h/a?b=c'"),
        (.delete("http://h/a"), "curl -X 'DELETE' ", "--compressed 'http://h/a'"),
        (.get("http://h/a").header("X", "it's"), #"curl -H 'X: it'\''s' "#, "--compressed 'http://h/a'"),
        (.get("http://h/a").header("X", ""), "curl -H 'X;' ", "--compressed 'http://h/a'"),
        (.get("http://h/a").header("X", "!\u{3}"), #"curl -H "$(printf 'X: \041\003')" "#, "--compressed 'http://h/a'"),
        (.get("http://[::1]/a/%2e%2e/b"), "curl --globoff --path-as-is ", "--compressed 'http://[::1]/a/%2e%2e/b'"),
        (
            .post("http://h/").body(Data("@it's".utf8), contentType: "text/plain"),
            "curl -X 'POST' -H 'Content-Type: text/plain' ", #"--compressed --data-raw '@it'\''s' 'http://h/'"#
        ),
        (
            .put("http://h/").body(Data("a\n".utf8), contentType: "a/b"),
            #"printf 'a\012' | curl -X 'PUT' -H 'Content-Type: a/b' "#, "--compressed --data-binary @- 'http://h/'"
        ),
        (.post("http://h/"), "curl -X 'POST' ", "-H 'Content-Type:' --compressed --data-raw '' 'http://h/'"),
    ])
    func commandsAreAsShortAsTheyCanBe(request: Request<Data>, start: String, end: String) throws {
        #expect(try request.cURLCommand() == start + Self.added + end)
    }

    @Test func aHeadRequestHasNoBody() throws {
        let command = try Request<Void>.head("http://h/").cURLCommand()
        #expect(command.hasPrefix("curl --head -H"))
        #expect(!command.contains("--data"))
    }

    @Test func noSecretIsShownUnlessItIsWanted() async throws {
        let directory = try TemporaryDirectory()
        let all = try await HostileRequest.make(1_000, base: "http://h:80", directory: directory, seed: 18)
        let made = await offPool {
            Result {
                try all.map { (try $0.request.cURLCommand(), try $0.request.cURLCommand(revealingSecrets: true)) }
            }
        }
        var revealedCount = 0
        for (hostile, (command, revealed)) in zip(all, try made.get()) {
            let isRight =
                !command.contains(hostile.secret) && hostile.request.description.isOneLine
                && hostile.request.headerFields.map(\.description).allSatisfy(\.isOneLine)
                // Line feeds at the end of a file name are kept.
                && command.replacing("\n'", with: "'").isOneLine
                && !command.unicodeScalars.contains { $0.properties.generalCategory == .format }
            #expect(isRight, "\(command)")
            guard revealed.contains(hostile.secret) else { continue }
            revealedCount += 1
            #expect(command.contains("<redacted>") || command.contains("https://example.org"), "\(command)")
        }
        #expect(revealedCount > 600)
    }

    @Test func redactedCommandsMarkRemovedSecrets() throws {
        let request = Request<Data>.get("http://me:pw@h/a").bearer("t").secretHeader("X-Key", "k")
        let command = try request.cURLCommand()
        for part in ["'Authorization: <redacted>'", "'X-Key: <redacted>'", "'http://<redacted>@h/a'"] {
            #expect(command.contains(part), "\(command)")
        }
    }

    @Test func aRequestThatCannotBeSentSaysWhy() throws {
        let relative = Request<Data>.get("a b")
        #expect(throws: RequestError.self) { try relative.cURLCommand() }
        let base = try #require(URL(string: "http://h/x/y"))
        #expect(try relative.cURLCommand(relativeTo: base).hasSuffix("'http://h/x/y/a%20b'"))
        let missing = Request<Data>.post("http://h/").body(fromFile: URL(fileURLWithPath: "/no/such/file"))
        #expect(#expect(throws: RequestError.self) { try missing.cURLCommand() }?.code == .bodyUnreadable)
    }

    @Test func lineFeedsAtTheEndOfAWordStay() {
        #expect("a\n\n".shellWord == "\"$(printf 'a')\"'\n\n'")
        #expect("\n".shellWord == "'\n'")
        #expect("-\n.".shellWord == #""$(printf '\055\012.')""#)
    }
}
