import Convoy
import ConvoyCache
import Foundation
import Testing

@testable import ConvoyCommand

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
        let error = #expect(throws: UsageError.self) { try FetchOptions(parsing: ["--cache", "/tmp", "x.de"]) }
        #expect(error?.message.hasSuffix("--cache=/tmp") == true)
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
        let error = #expect(throws: UsageError.self) {
            try CacheLookup(parsing: arguments, environment: ["HOME": "/h"])
        }
        #expect(error?.message.hasPrefix(message) == true, "\(error?.message ?? "")")
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
