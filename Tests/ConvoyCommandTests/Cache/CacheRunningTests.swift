import Convoy
import ConvoyCache
import Foundation
import Testing

@testable import ConvoyCommand

@Suite final class CacheRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { request in
            var fields = [
                ("Cache-Control", request.path == "/stale" ? "max-age=0" : "max-age=600"), ("ETag", "\"v1\""),
            ]
            switch request.path {
            case "/stale" where request.value(of: "If-None-Match") == "\"v1\"":
                return .status(304, headerFields: fields)
            case "/kept-out": fields = [("Cache-Control", "no-store")]
            case "/vary": fields.append(("Vary", "Accept"))
            case "/secret": fields += [("Set-Cookie", "sid=s3cret"), ("Content-Location", "/x?token=s3cret")]
            default: break
            }
            return .status(200, headerFields: fields, body: String(repeating: "0123456789", count: 10_000))
        }
    }

    private var cache: String { "--cache=" + path("cache") }
    private var requestCount: Int { server.recordedRequests.count }

    private var cached: Invocation { Invocation(fetch.first + ["--retries=0", cache]) }
    private var look: Invocation { Invocation(["cache"], last: [cache]) }

    @Test func aFileComesFromTheCacheTheSecondTime() async throws {
        let format = "%{cache} %{http_code} %{size_download} %{http_version}\n"
        try await cached("-o", "first", "-w", format, url("/a"), prints: "^miss 200 100000 1.1\n$")
        try await cached("-o", "second", "-w", format, url("/a"), prints: "^hit 200 100000 0\n$")
        #expect(try data("first") == data("second"))
        #expect(try data("second").count == 100_000)
        #expect(requestCount == 1)
        let printed = try await cached("-o", "-", url("/a"))
        #expect(printed.output.utf8.count == 100_000 && requestCount == 1)
        try await cached("-O", url("/a"), prints: ["saved a  100.0 kB in ", ", from the cache"])
        #expect(try data("a").count == 100_000)
    }

    /// Both requests have one URL, but the second has a `Host` field.
    @Test func responsesOfAHostFieldAreListedAndRemovedWithTheirURL() async throws {
        try await cached("-o", "first", url("/a"))
        try await cached("-o", "second", "-H", "Host: b.example", url("/a"))
        #expect(requestCount == 2)
        let list = try await look("list")
        #expect(list.output.components(separatedBy: "  host http://b.example:80").count == 2, "\(list.output)")
        let shown = try await look("show", url("/a"), prints: "  host         http://b.example:80")
        #expect(shown.output.components(separatedBy: "received").count == 3, "\(shown.output)")
        try await look("remove", url("/a"), prints: "2")
        #expect(try await look("list").output.isEmpty)
    }

    /// If a locked cache looked empty, a user would think that it had been cleared.
    @Test(arguments: [["clear"], ["status"], ["list"]])
    func aCacheThatAnotherProcessHasLockedIsNotReportedAsEmpty(arguments: [String]) async throws {
        try await cached("-o", "first", url("/a"))
        let descriptor = open(path("cache/convoy-cache.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        try #require(descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        try await look(arguments, status: 1, prints: "", errors: "another process has locked the cache")
        close(descriptor)
        #expect(try await look("list").output.contains("/a"))
    }

    @Test func aListIsAnsweredAsFarAsItIsFresh() async throws {
        let list = try write("BASE/a\nBASE/b\nBASE/stale\nBASE/kept-out\n", to: "list")
        try await cached("-i", list, "--quiet")
        let names = ["a", "b", "stale", "kept-out"]
        for name in names { try FileManager.default.removeItem(at: directory.file(name)) }
        let again = try await cached("-i", list, "--json")
        let finished = again.events(named: "finished").sorted { $0["index"] as? Int ?? 0 < $1["index"] as? Int ?? 0 }
        #expect(finished.map { $0["cache"] as? String } == ["hit", "hit", "revalidated", "miss"])
        for name in names { #expect(try data(name).count == 100_000) }
        #expect(server.recordedRequests.map(\.path).dropFirst(4).sorted() == ["/kept-out", "/stale"])
    }

    @Test func aPolicyDecides() async throws {
        try await cached("-s", url("/a"))
        for (policy, word, count) in [
            ("reload", "miss", 2), ("prefer-cache", "hit", 2), ("only-cache", "hit", 2), ("no-store", "bypass", 3),
            ("revalidate", "miss", 4),
        ] {
            try await cached(
                "--cache-policy", policy, "-o", "/dev/null", "-w", "%{cache}", url("/a"), prints: "^\(word)$")
            #expect(requestCount == count, "\(policy)")
        }
        let missing = try await cached("--cache-policy", "only-cache", "-s", url("/none"), status: 1)
        #expect(requestCount == 4)
        #expect(missing.errors.contains("the cache has no usable response"), "\(missing.errors)")
    }

    @Test func verboseAndJSONShowTheSourceOfAResponse() async throws {
        try await cached("-v", "-s", url("/a"), errors: "* cache: convoy; fwd=uri-miss; stored\n")
        try await cached(
            "-v", "-s", url("/a"), errors: ["* from the cache, no request sent: convoy; hit; ttl=", "!new connection"])
        let json = try await cached("-s", "-o", "/dev/null", "-w", "%{json}", url("/a"))
        #expect(ConvoyProcess.events(of: json.output).first?["cache"] as? String == "hit")
        try await convoy("fetch", "--no-config", "-s", "-o", "/dev/null", "-w", "[%{cache}]", url("/a"), prints: "^[]$")
        #expect(try await cached("-I", url("/a")).output.hasPrefix("HTTP/1.1 200 OK\r\n"))
    }

    @Test func aRunOfRequestsHasACacheToo() async throws {
        let file = try write("GET BASE/a\n###\nGET BASE/stale\n", to: "api.http")
        try await convoy("run", cache, file)
        let again = try await convoy("run", cache, "--json", file)
        let words = again.events(named: "finished").compactMap { $0["cache"] as? String }
        #expect(words.sorted() == ["hit", "revalidated"], "\(again.output)")
        let told = try await convoy("run", cache, "--report", path("report.html"), file)
        #expect(told.output.contains(", from the cache\n") && told.output.contains(", from the cache, validated\n"))
        #expect(try content("report.html").contains("\"hit\",[["))
        #expect(requestCount == 4)
        try await convoy("run", "--dry-run", cache, file)
        #expect(requestCount == 4)
    }

    @Test func storedResponsesAreListedShownAndExplainedWithoutSecrets() async throws {
        let secret = url("/secret?token=s3cret&a=1")
        try await cached("-s", "-H", "Accept: text/plain", url("/vary"))
        try await cached("-s", url("/stale"))
        try await cached("-s", secret)
        let status = try await look("status", "--json")
        #expect(status.events.first?["entries"] as? Int == 3 && status.events.first?["fresh"] as? Int == 2)
        #expect(try await look("status").output.contains("responses  3, 2 of them fresh\n"))
        let list = try await look(
            "list", prints: ["200  100.0 kB  stale  \(url("/stale"))\n", "\(url("/vary"))  varies by accept\n"])
        #expect(try await look("list", "*/vary").output.split(separator: "\n").count == 1)
        #expect(try await look("list", "--json").events.count == 3)
        let shown = try await look("show", secret, prints: ["Set-Cookie: <redacted>", "ETag: \"v1\""])
        for told in [
            list, shown, try await look("why", secret, status: nil),
            try await look("show", "--json", secret),
        ] {
            #expect(
                !told.output.contains("s3cret") && told.output.contains("redacted") || told.output.contains("4.2.1"))
        }
        try await look("show", url("/none"), status: 1)
        #expect(requestCount == 3)
    }

    @Test func whyNamesEachRuleWithItsSection() async throws {
        try await cached("-s", "-H", "Accept: text/plain", url("/vary"))
        try await cached("-s", url("/stale"))
        let hit = try await look("why", "-H", "Accept: text/plain", url("/vary"), status: nil)
        #expect(hit.output.hasPrefix("served from the cache: no request would be sent\n"), "\(hit.output)")
        #expect(hit.output.contains("  RFC 9111, 4.2.1  it is fresh for 600 s\n"))
        let miss = try await look("why", "-H", "Accept: text/html", url("/vary"), status: nil)
        #expect(miss.output.hasPrefix("sent to the server (vary-miss)\n  RFC 9111, 4.1"), "\(miss.output)")
        try await look("why", url("/stale"), status: nil, prints: "  sent with: If-None-Match: \"v1\"\n$")
        let json = try #require(try await look("why", "--json", url("/stale"), status: nil).events.first)
        #expect(json["answered"] as? Bool == false)
        #expect(json["cache_status"] != nil)
        #expect((json["rules"] as? [[String: String]])?.contains { $0["section"] == "RFC 9111, 4.3.1" } == true)
        try await look(
            "why", "--cache-policy", "only-cache", url("/none"), status: nil,
            prints: "^not sent: the cache has no usable response, so the status would be 504\n")
    }

    @Test func removedResponsesAreCounted() async throws {
        for path in ["/a/1", "/a/2", "/b/1", "/c"] { try await cached("-s", url(path)) }
        // A pattern needs no scheme.
        #expect(try await look("list", url("/c").replacing("http://", with: "")).output.contains(url("/c")))
        try await look("list", "other.example", status: 1, errors: "convoy: no stored response has a matching URL\n")
        // `delete` is `remove`.
        let path = path("cache")
        try await look("delete", url("/c"), prints: "^removed 1 response, 100.0 kB, from \(path)\n$")
        try await look("delete", url("/c"), status: 1, errors: "^convoy: no stored response has a matching URL\n$")
        #expect(try await look("delete", status: 2).errors.contains("write convoy cache remove PATTERN"))
        try await look("remove", "--json", "127.0.0.1*/a/*", prints: "^{\"removed\":2,\"bytes\":200000}\n$")
        try await look("remove", "127.0.0.1*/a/*", status: 1)
        #expect(try await look("list").output.contains(url("/b/1")))
        #expect(try await look("clear").output == "removed 1 response, 100.0 kB, from \(path)\n")
        #expect(try await look("list").output == "")
        try await look("clear")
        try await cached("-s", url("/b/1"))
        #expect(requestCount == 5)
    }

    /// A server that never answers a background validation delays the exit by five seconds only.
    @Test(.timeLimit(.minutes(1))) func aBackgroundValidationDoesNotHoldTheProcess() async throws {
        server.respond { request in
            if request.value(of: "If-None-Match") != nil { return .status(304).stalling() }
            return .status(
                200, headerFields: [("Cache-Control", "max-age=0, stale-while-revalidate=1000"), ("ETag", "\"v1\"")],
                body: "body")
        }
        for _ in 0..<2 {
            try await convoy("fetch", "--no-config", cache, "-s", url("/revalidated"), prints: "^body$")
        }
        #expect(requestCount == 2)
    }

    @Test func aLookupDoesNotCreateACache() async throws {
        for verb in [["status"], ["list"], ["why", url("/a")], ["clear"]] {
            try await look(verb, status: 1, errors: "no cache exists in \(directory.url.path)/cache")
        }
        #expect(try directory.names() == [])
    }

    @Test func aDirectoryThatCannotBeUsedIsReportedAndTheFetchSucceeds() async throws {
        let ending = try await convoy(
            "fetch", "--no-config", "--cache=/dev/null/x", "-s", url("/a"),
            errors: "^convoy: --cache: the cache is not used, because /dev/null/x cannot be written: ")
        #expect(ending.output.utf8.count == 100_000)
    }

    @Test func theDefaultDirectoryIsThatOfTheUser() async throws {
        let script = "XDG_CACHE_HOME=\"$1\" \"$0\" fetch --no-config --cache -s \"$2\""
        let ending = try await convoy(shell: script, directory.url.path, url("/a"))
        #expect(ending.output.utf8.count == 100_000)
        let looked = try await convoy(
            "cache", "status", "--json", "--cache", path("convoy/http"))
        #expect(looked.events.first?["entries"] as? Int == 1)
        var status = stat()
        #expect(stat(path("convoy/http"), &status) == 0 && status.st_mode & 0o777 == 0o700)
    }
}

@Suite struct CacheLookupTests {
    @Test(arguments: [
        (["XDG_CACHE_HOME": "/x", "HOME": "/h"], "", "/x/convoy/http"),
        (["XDG_CACHE_HOME": "relative", "HOME": "/h"], "", "/h/.cache/convoy/http"),
        (["HOME": "/h"], "", "/h/.cache/convoy/http"), (["HOME": "/h"], "~/c", "/h/c"), ([:], "d", "d"),
    ])
    func theDirectoryIsThatOfTheUser(environment: [String: String], value: String, directory: String) throws {
        #expect(try FetchOptions.cacheDirectory(value, environment) == directory)
    }

    @Test func withoutAHomeTheCacheHasNoDefaultDirectory() {
        #expect(throws: UsageError.self) { try FetchOptions.cacheDirectory("", [:]) }
    }

    @Test func aDirectoryIsGivenOnlyWithAnEqualsSign() throws {
        let options = try #require(try FetchOptions(parsing: ["--cache=d", "--cache-policy", "no-store", "x.de"]))
        #expect(options.cacheDirectory == "d" && options.cachePolicy == .noStore && options.urls.count == 1)
        let byDefault = try #require(try FetchOptions(parsing: ["--cache", "--cache-size", "2M", "x.de"]))
        #expect(byDefault.cacheDirectory?.hasSuffix("/convoy/http") == true && byDefault.cacheBytes == 2_000_000)
        #expect(try FetchOptions(parsing: ["x.de"])?.cacheDirectory == nil)
        #expect(throws: UsageError("the option --cache needs a value: --cache DIR")) {
            try FetchOptions(parsing: ["--cache=", "x.de"])
        }
    }

    @Test func aFileOfOptionsNamesTheDirectory() throws {
        let scanner = OptionScanner(options: Subcommand.fetch.options)
        for (text, value) in [("cache = /d", "/d"), ("cache", ""), ("--cache=/d", "/d")] {
            #expect(try ConfigFile.scan(text, "f", scanner).given.map(\.value) == [value])
        }
    }

    @Test(arguments: [
        (["--cache-policy", "reload", "x.de"], "--cache-policy needs a cache: add --cache"),
        (
            ["--cache", "--cache-policy", "relaod", "x.de"],
            "--cache-policy takes standard, reload, revalidate, prefer-cache, only-cache or no-store, not \"relaod\"; "
                + "did you mean reload?"
        ),
        (
            ["--no-cache", "x.de"],
            "unknown option --no-cache: wget's --no-cache is -H 'Cache-Control: no-cache', or "
                + "with --cache --cache-policy reload"
        ),
    ])
    func mistakesOfFetchAreReported(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try FetchOptions(parsing: arguments) }
    }

    @Test func aDirectoryInPlaceOfAURLGetsAHint() {
        expectMistake("--cache=/tmp$") { try FetchOptions(parsing: ["--cache", "/tmp", "x.de"]) }
    }

    @Test func everyPolicyOfTheLibraryHasAName() throws {
        let option = try #require(Subcommand.fetch.options.first { $0.name == "cache-policy" })
        guard case .choice(let words) = option.value else { throw CocoaError(.featureUnsupported) }
        let policies = try words.map {
            try FetchOptions(parsing: ["--cache=d", "--cache-policy", $0, "x.de"])?.cachePolicy
        }
        #expect(policies == CachePolicy.allCases)
    }

    @Test(arguments: [
        ([], "a command is missing; write convoy cache status|list|show|why|remove|clear"),
        (["clera"], "unknown command \"clera\"; did you mean clear?"),
        (["show"], "a URL is missing; write convoy cache show URL"),
        (["clear", "x.de"], "1 operands are too many; write convoy cache clear"),
        (["show", "http://"], "the URL: it has no host: write https://"),
        (["list", "-H", "a: b"], "unknown option -H"),
        (["status", "--cache", ""], "the option --cache needs a value: --cache DIR"),
    ])
    func mistakesAreReported(arguments: [String], message: String) {
        expectMistake("^\(message)") { try CacheLookup(parsing: arguments, environment: ["HOME": "/h"]) }
    }

    @Test(
        arguments: [
            ("hit", nil, nil, 5, nil), ("stale", nil, nil, 0, nil), ("stale", nil, nil, -3, nil),
            ("hit", nil, nil, nil, nil), ("revalidated", .stale, 304, 5, nil), ("miss", .stale, 200, nil, nil),
            ("stale", .stale, 503, nil, "stale-if-error"), ("bypass", .bypass, nil, nil, nil),
            ("bypass", .method, nil, nil, nil), ("miss", .uriMiss, nil, nil, nil),
        ] as [(String, CacheStatus.Forward?, Int?, Int?, String?)])
    func anOutcomeIsOneWord(
        word: String, forward: CacheStatus.Forward?, forwardStatus: Int?, timeToLive: Int?, detail: String?
    ) {
        var status = CacheStatus()
        (status.forward, status.forwardStatus, status.timeToLive) = (forward, forwardStatus, timeToLive)
        status.detail = detail
        #expect(status.outcome.rawValue == word)
    }
}
