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
            #expect(error.command == "fetch")
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
        #expect(!options.discards && !options.isQuiet && !options.isJSON)
    }

    @Test func everyOptionIsTaken() throws {
        let options = try #require(
            try FetchOptions(parsing: [
                "-i", "-", "-o", "dir", "--discard", "-j16", "--per-host=2", "--header", "A: b", "--header=A: c:d",
                "--transport", "urlsession", "--quiet", "--retries=0", "--deadline", "30",
            ]))
        #expect(options.input == .standardInput)
        #expect(options.directory == "dir")
        #expect(options.discards && options.isQuiet)
        #expect(options.jobs == 16)
        #expect(options.perHost == 2)
        #expect(options.retries == 0)
        #expect(options.deadline == .seconds(30))
        #expect(options.headerFields.values(of: "a") == ["b", "c:d"])
    }

    @Test func helpIsNoRun() throws {
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

    @Test func onlyFieldsThatAreNoKeysGoToAnotherOrigin() throws {
        let fields = ["X-Api-Key", "Private-Token", "Accept", "user-agent", "Range", "Host", "authorization", "Cookie"]
        let options = try #require(
            try FetchOptions(parsing: fields.flatMap { ["--header", "\($0): v"] } + ["http://a/"]))
        #expect(options.headerFields.filter(\.isMarkedSecret).map(\.name) == ["X-Api-Key", "Private-Token"])
        let secrets = ["X-Api-Key", "Private-Token", "authorization", "Cookie"]
        #expect(options.headerFields.filter(\.isSecret).map(\.name) == secrets)
    }

    @Test(arguments: ["--sha256=00"])
    func laterOptionsAreRefusedAndSaySo(option: String) throws {
        #expect(try #require(message([option, "http://a/"])).hasSuffix("is not in this version"))
    }

    @Test(arguments: [
        [], ["--jobs=0", "http://a/"], ["--jobs=257", "http://a/"], ["--jobs=x", "http://a/"], ["ftp://a/"], ["a/b"],
        ["http://"], ["--transport=carrier-pigeon", "http://a/"],
        ["--header=nocolon", "http://a/"], ["--header=a b: c", "http://a/"], ["--header=a: b\r\nX: y", "http://a/"],
        ["--quiet", "--json", "http://a/"], [""],
    ])
    func mistakesRunNothing(arguments: [String]) {
        #expect(message(arguments) != nil)
    }

    @Test func aRefusedHeaderFieldIsNotRepeated() throws {
        #expect(try !#require(message(["--header=Authorization: secret\n", "http://a/"])).contains("secret"))
    }

    @Test func aURLWithoutItsSchemeIsQuotedAndSaysSo() {
        #expect(
            message(["http://a/", "127.0.0.1:8765/x"])
                == #"URL 2 "127.0.0.1:8765/x": it does not begin with http:// or https://"#)
        #expect(message(["me:secret@host:1/x"]) == "URL 1: it does not begin with http:// or https://")
    }

    @Test func aRefusedURLIsShownWithoutItsPassword() throws {
        #expect(try !#require(message(["ftp://user:secret@host/"])).contains("secret"))
    }
}
