import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FetchOptionsTests {
    private func message(_ arguments: [String]) -> String? {
        do {
            _ = try FetchOptions(parsing: arguments)
            return nil
        } catch {
            return error.message
        }
    }

    @Test func defaultsAreThoseOfTheHelp() throws {
        let options = try #require(try FetchOptions(parsing: ["http://a/b"]))
        #expect(options.urls == [URL(string: "http://a/b")])
        #expect(options.jobs == 8)
        #expect(options.perHost == 6)
        #expect(options.retries == 3)
        #expect(options.deadline == nil)
        #expect(options.directory == ".")
        #expect(options.input == nil)
        #expect(!options.discards && !options.isQuiet && !options.isJSON && !options.takesProposedNames)
        #expect(options.existing == nil)
        #expect(options.segments == 1)
        #expect(options.digest == nil)
    }

    @Test func everyOptionIsParsed() throws {
        let options = try #require(
            try FetchOptions(parsing: [
                "-i", "-", "-o", "dir", "--discard", "-j16", "--per-host=2", "--header", "A: b", "--header=A: c:d",
                "--transport", "urlsession", "--quiet", "--retries=0", "--deadline", "30", "-J", "--existing=skip",
            ]))
        #expect(options.input == "-")
        #expect(options.directory == "dir")
        #expect(options.discards && options.isQuiet)
        #expect(options.jobs == 16)
        #expect(options.perHost == 2)
        #expect(options.retries == 0)
        #expect(options.takesProposedNames)
        #expect(options.existing == .skip)
        #expect(options.deadline == .seconds(30))
        #expect(options.headerFields.values(of: "a") == ["b", "c:d"])
    }

    /// As in curl, an equals sign anywhere decides that the text names no file.
    @Test(arguments: [
        ("a b", "a+b"), ("=a@b", "a%40b"), ("n=a@b", "n=a%40b"), ("a@b=c d", "a@b=c+d"), ("@b=c", "@b=c"),
    ])
    func theEncodedTextHasTheMeaningOfCurl(text: String, sent: String) throws {
        let options = try #require(try FetchOptions(parsing: ["--data-urlencode", text, "http://a/"]))
        guard case .fields(let data)? = options.sending.body else {
            Issue.record("there are no fields")
            return
        }
        #expect(String(decoding: data, as: UTF8.self) == sent)
    }

    @Test func helpStartsNoRun() throws {
        #expect(try FetchOptions(parsing: ["--help"]) == nil)
    }

    @Test(arguments: [
        ("2.5", Duration.milliseconds(2_500)), (".5", .milliseconds(500)), ("5.", .seconds(5)), ("007", .seconds(7)),
        (String(repeating: "9", count: 400), .seconds(1_000_000_000)),
    ])
    func deadlinesAreSecondsWithOrWithoutAFraction(text: String, deadline: Duration) throws {
        let options = try #require(try FetchOptions(parsing: ["--deadline", text, "http://a/"]))
        #expect(options.deadline == deadline)
    }

    @Test(arguments: ["0", "0.0", "-1", "1e3", "0x10", "inf", "nan", ".", "1.2.3", "1,5", "5s", " 5", "\u{0665}"])
    func otherDeadlinesAreRefused(text: String) {
        let wanted = "a number of seconds above 0, such as 30 or 2.5"
        #expect(
            message(["--deadline", text, "http://a/"]) == "--deadline takes \(wanted), not \(text.debugDescription)")
    }

    @Test(arguments: ["-1", "1001", "x", "1.5", "99999999999999999999"])
    func retriesAreCountedFrom0To1000(text: String) {
        let expected = "--retries takes a number from 0 to 1000, not \(text.debugDescription)"
        #expect(message(["--retries", text, "http://a/"]) == expected)
    }

    @Test func fieldsThatMayBeKeysAreNotSentToAnotherOrigin() throws {
        let fields = ["X-Api-Key", "Private-Token", "Accept", "user-agent", "Range", "Host", "authorization", "Cookie"]
        let options = try #require(
            try FetchOptions(parsing: fields.flatMap { ["--header", "\($0): v"] } + ["http://a/"]))
        #expect(options.headerFields.filter(\.isMarkedSecret).map(\.name) == ["X-Api-Key", "Private-Token"])
        let secrets = ["X-Api-Key", "Private-Token", "authorization", "Cookie"]
        #expect(options.headerFields.filter(\.isSecret).map(\.name) == secrets)
    }

    @Test(arguments: [
        ("--rate=0", "a number of bytes per second above 0"), ("--rate=fast", "such as 500k, 2.5M or 1MiB"),
        ("--min-speed=-1", "a number of bytes per second above 0"), ("--segments=17", "a number from 1 to 16"),
        ("--segments=0", "a number from 1 to 16"), ("--existing=keep", "overwrite, fail, rename, skip"),
        ("--transport=pigeon", "curl or urlsession"),
    ])
    func valuesAreCheckedAndTheRightOnesNamed(option: String, words: String) throws {
        let told = try #require(message([option, "http://a/"]))
        #expect(told.contains(words))
    }

    @Test(arguments: ["--discard", "--content-disposition"])
    func segmentsNeedNamesThatAreKnownBefore(option: String) throws {
        #expect(try #require(message(["--segments=2", option, "http://a/"])).hasSuffix("remove \(option)"))
    }

    @Test func codedBodiesComeInOnePiece() throws {
        let options = try #require(try FetchOptions(parsing: ["--compressed", "http://a/"]))
        #expect(options.isCompressed)
        #expect(try #require(message(["--segments=2", "--compressed", "http://a/"])).contains("exclude each other"))
    }

    @Test func aDigestIsOfTheOnlyURL() throws {
        let digits = String(repeating: "aB", count: 32)
        let options = try #require(try FetchOptions(parsing: ["--sha256", digits, "http://a/"]))
        #expect(options.digest == .sha256(digits))
        let long = try #require(try FetchOptions(parsing: ["--sha512", digits + digits, "http://a/"]))
        #expect(long.digest?.algorithm == .sha512)
        #expect(
            try #require(message(["--sha256=00", "http://a/"])).contains("64 hexadecimal digits, and 2 were given"))
        for others in [
            ["http://a/", "http://b/"], ["-i", "-"], ["-i", "-", "http://a/"], ["--discard", "http://a/"],
        ] {
            #expect(try #require(message(["--sha256", digits] + others)).contains("--sha256"))
        }
        #expect(try #require(message(["--sha256", digits, "--sha512", digits, "http://a/"])).contains("exclude"))
    }

    @Test func filesAreReplacedUnlessAServerNamesThem() throws {
        let url = try #require(URL(string: "http://a/"))
        var (plain, named) = (
            FetchItem(index: 0, url: url, fileName: "a"), FetchItem(index: 1, url: url, fileName: "b")
        )
        named.isNamed = true
        plain.digest = .sha256(String(repeating: "00", count: 32))
        let options = try #require(try FetchOptions(parsing: ["http://a/"]))
        #expect(options.existing(for: plain) == .overwrite)
        let proposed = try #require(try FetchOptions(parsing: ["-J", "http://a/"]))
        #expect(proposed.existing(for: plain) == .rename)
        #expect(proposed.existing(for: named) == .overwrite)
        let asked = try #require(try FetchOptions(parsing: ["-J", "--existing", "fail", "http://a/"]))
        #expect(asked.existing(for: plain) == .fail)
        #expect(asked.existing(for: named) == .fail)
    }

    @Test(
        arguments: [
            ("0", 0), ("500", 500), ("500b", 500), ("500k", 500_000), ("1.5M", 1_500_000), ("2GB", 2_000_000_000),
            ("1KiB", 1_024), ("1.5mib", 1_572_864), ("1Gi", 1_073_741_824), ("99999999999G", 1 << 62), (".5k", 500),
        ] as [(String, Int64)])
    func bytesHaveSuffixes(text: String, bytes: Int64) {
        #expect(Figures.byteCount(text) == bytes)
    }

    @Test(arguments: ["", "k", "1T", "-1", "1e3", "0x10", "1 k", "1kk", "1.2.3", "\u{0665}", "inf", "."])
    func anInvalidByteCountIsNil(text: String) {
        #expect(Figures.byteCount(text) == nil)
    }

    @Test(arguments: [
        [], ["--jobs=0", "http://a/"], ["--jobs=257", "http://a/"], ["--jobs=x", "http://a/"], ["ftp://a/"], ["a/b"],
        ["http://"], ["--transport=carrier-pigeon", "http://a/"],
        ["--header=nocolon", "http://a/"], ["--header=a b: c", "http://a/"], ["--header=a: b\r\nX: y", "http://a/"],
        ["--quiet", "--json", "http://a/"], [""],
    ])
    func mistakesStartNoRun(arguments: [String]) {
        #expect(message(arguments) != nil)
    }

    @Test func aRefusedHeaderFieldIsNotRepeated() throws {
        #expect(try !#require(message(["--header=Authorization: secret\n", "http://a/"])).contains("secret"))
    }

    @Test func aURLWithoutItsSchemeGetsOneAndAWordIsQuoted() throws {
        let options = try #require(try FetchOptions(parsing: ["127.0.0.1:8765/x", "example.com/y"]))
        #expect(options.urls.map(\.absoluteString) == ["http://127.0.0.1:8765/x", "https://example.com/y"])
        let advice = "it is not an absolute URL: write https:// and the host before it"
        #expect(message(["http://a/", "nonsense"]) == #"URL 2 "nonsense": \#(advice)"#)
        #expect(message(["me:secret@nohost"]) == "URL 1: \(advice)")
    }

    @Test func aRefusedURLIsShownWithoutItsPassword() throws {
        #expect(try !#require(message(["ftp://user:secret@host/"])).contains("secret"))
    }
}
