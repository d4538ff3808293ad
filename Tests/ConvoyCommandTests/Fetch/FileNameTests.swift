import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FileNameTests {
    @Test(arguments: [
        ("http://h/a/b.zip", "b.zip"), ("http://h/a/b.zip?x=/y", "b.zip"), ("http://h/dir/", "dir"),
        ("http://h", "download"), ("http://h/", "download"), ("http://h/a%20b%C3%A9.txt", "a b\u{E9}.txt"),
        ("http://h/a%2Fb", "b"), ("http://h/..%2F..%2Fevil", "evil"), ("http://h/%2e%2e", "download"),
        ("http://h/%FF", "%FF"), ("http://h/%00%1b%5B2Jx", "[2Jx"),
    ])
    func urlGivesItsLastPart(url: String, name: String) throws {
        #expect(FileName.proposed(by: try #require(URL(string: url))) == name)
    }

    @Test(arguments: [
        ("../../x", "x"), ("/etc/x", "x"), (#"C:\x"#, "x"), (".bashrc", "bashrc"), ("", "download"), ("..", "download"),
        (" . .a ", "a"), ("a\u{202E}gpj.exe", "agpj.exe"), ("a\u{0}b\nc\u{7F}", "abc"),
        ("\u{200B}\u{FEFF}", "download"),
        ("/", "download"), ("a/", "a"), ("\u{9B}31mred", "31mred"),
    ])
    func hostileNamesBecomeSafe(proposed: String, name: String) {
        #expect(FileName.safe(proposed) == name)
    }

    @Test func longNamesAreCutBetweenScalarsAndKeepTheirExtension() {
        let name = FileName.safe(String(repeating: "\u{E9}", count: 300) + ".tar")
        #expect(name.utf8.count == 254)
        #expect(name.hasSuffix("\u{E9}.tar"))
        #expect(FileName.numbered(name, 1_000).utf8.count <= 255)
        #expect(FileName.numbered(name, 1_000).hasSuffix("-1000.tar"))
    }

    @Test func numbersComeBeforeTheExtension() {
        #expect(FileName.numbered("name.ext", 1) == "name-1.ext")
        #expect(FileName.numbered("name", 2) == "name-2")
    }

    @Test func sameNamesAreNumberedAndNeverMeet() {
        var register = FileNameRegister()
        let names = ["a.b", "a-1.b", "a.b", "a.b", "a-1.b", "c"].map { register.claim($0) }
        #expect(names == ["a.b", "a-1.b", "a-2.b", "a-3.b", "a-1-1.b", "c"])
    }

    @Test func aHundredThousandEqualNamesTakeLinearTime() {
        var register = FileNameRegister()
        var last = ""
        for _ in 0..<100_000 { last = register.claim("download") }
        #expect(last == "download-99999")
    }
}
