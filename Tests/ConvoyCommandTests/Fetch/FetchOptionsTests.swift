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
        #expect(options.directory == ".")
        #expect(options.input == nil)
        #expect(!options.discards && !options.isQuiet && !options.isJSON)
    }

    @Test func everyOptionIsTaken() throws {
        let options = try #require(
            try FetchOptions(parsing: [
                "-i", "-", "-o", "dir", "--discard", "-j16", "--per-host=2", "--header", "A: b", "--header=A: c:d",
                "--transport", "urlsession", "--quiet",
            ]))
        #expect(options.input == .standardInput)
        #expect(options.directory == "dir")
        #expect(options.discards && options.isQuiet)
        #expect(options.jobs == 16)
        #expect(options.perHost == 2)
        #expect(options.headerFields.values(of: "a") == ["b", "c:d"])
    }

    @Test func helpIsNoRun() throws {
        #expect(try FetchOptions(parsing: ["--help"]) == nil)
    }

    @Test(arguments: ["--retries=3", "--deadline=1", "--sha256=00"])
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

    @Test func aRefusedURLIsShownWithoutItsPassword() throws {
        #expect(try !#require(message(["ftp://user:secret@host/"])).contains("secret"))
    }
}
