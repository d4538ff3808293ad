import Convoy
import Foundation
import Testing

@Suite struct FileNameTests {
    @Test(arguments: [
        ("http://h/a/b.zip", "b.zip"), ("http://h/a/b.zip?x=/y", "b.zip"), ("http://h/dir/", "dir"),
        ("http://h", "download"), ("http://h/", "download"), ("http://h/a%20b%C3%A9.txt", "a b\u{E9}.txt"),
        ("http://h/a%2Fb", "b"), ("http://h/..%2F..%2Fevil", "evil"), ("http://h/%2e%2e", "download"),
        ("http://h/%FF", "%FF"), ("http://h/%00%1b%5B2Jx", "[2Jx"), ("http://h/..%2F%CC%81x", "\u{301}x"),
    ])
    func urlGivesItsLastPart(url: String, name: String) throws {
        #expect(FileName.proposed(by: try #require(URL(string: url))) == name)
    }

    private static let proposals = [
        ("../../x", "x"), ("/etc/x", "x"), (#"C:\x"#, "x"), (#"..\..\x"#, "x"), (#"a/b\c/d"#, "d"), ("/", "download"),
        ("a/", "a"), (#"a\"#, "a"), ("..", "download"), ("../..", "download"), ("a/..", "download"), ("x//", "x"),
        // For Swift, a slash with a combining accent is not equal to a slash, so the scalars are compared.
        ("a/\u{301}b", "\u{301}b"), ("../\u{301}b", "\u{301}b"), ("a\\\u{301}b", "\u{301}b"), (".\u{301}a", "\u{301}a"),
        (" \u{301}a", "\u{301}a"), ("a/\u{200D}b", "b"), ("..\u{FE0F}/\u{FE0F}b", "b"), ("a.\u{200D}", "a"),
    ]
    private static let ends = [
        (".bashrc", "bashrc"), ("...a", "a"), (" . .a ", "a"), ("\t\na", "a"), ("\u{A0}a\u{3000}", "a"), ("a.", "a"),
        ("a...", "a"), ("a. .", "a"), ("a.txt. ", "a.txt"), ("a .txt", "a .txt"), ("a..b", "a..b"),
        ("", "download"), (".", "download"), (" ", "download"), (" . ", "download"), ("\u{3000}", "download"),
    ]
    private static let invisible = [
        ("a\u{202E}gpj.exe", "agpj.exe"), ("a\u{0}b\nc\u{7F}", "abc"), ("\u{200B}\u{FEFF}", "download"),
        ("\u{9B}31mred", "31mred"), ("\u{1B}[2J", "[2J"), ("\u{3164}\u{115F}\u{FFA0}", "download"), ("\u{0}.a", "a"),
        ("\u{200B}.a", "a"), ("e\u{301}.txt", "e\u{301}.txt"), ("日本語.txt", "日本語.txt"), ("🚚.zip", "🚚.zip"),
    ]
    /// These names are special only on Windows or in a shell, and Convoy does not write files on Windows.
    private static let harmless = ["CON", "nul.txt", "COM1", "a:b", "a?b*c", "~a", "-rf"].map { ($0, $0) }

    @Test(arguments: proposals + ends + invisible + harmless) func aNameIsSafe(proposed: String, name: String) {
        #expect(FileName.safe(proposed) == name)
    }

    @Test func everyControlAndInvisibleScalarGoes() throws {
        let values: [ClosedRange<UInt32>] = [
            0...0x1F, 0x7F...0x9F, 0xAD...0xAD, 0x34F...0x34F, 0x61C...0x61C, 0x180E...0x180E, 0x200B...0x200F,
            0x2028...0x202E, 0x2060...0x206F, 0xFEFF...0xFEFF, 0xFFF9...0xFFFB, 0xE0001...0xE0001, 0xE0020...0xE007F,
        ]
        for value in values.joined() {
            let scalar = try #require(Unicode.Scalar(value))
            #expect(FileName.safe("a\(scalar)b") == "ab", "U+\(String(value, radix: 16))")
            #expect(FileName.safe("\(scalar)") == "download", "U+\(String(value, radix: 16))")
        }
    }

    @Test func longNamesAreCutBetweenScalarsAndKeepTheirExtension() {
        let (long, stem) = (String(repeating: "a", count: 1_000), String(repeating: "a", count: 254))
        #expect(FileName.safe(long).utf8.count == 255)
        for end in [" ", "."] { #expect(FileName.safe(stem + end + "bbbbbbbbbbbbbbbbbb") == stem) }
        let name = FileName.safe(String(repeating: "\u{E9}", count: 300) + ".tar")
        #expect(name.utf8.count == 254)
        #expect(name.hasSuffix("\u{E9}.tar"))
        #expect(FileName.numbered(name, 1_000).utf8.count <= 255)
        #expect(FileName.numbered(name, 1_000).hasSuffix("-1000.tar"))
        #expect(FileName.numbered(name, .max).utf8.count <= 255)
    }

    @Test(arguments: ["a", "/", "\\", ".", " ", "\u{0}", "\u{301}", "é", "🚚", "\u{202E}", "a.", "\u{200D}", "../"])
    func longProposalsCostTimeInProportion(piece: String) {
        let long = String(repeating: piece, count: 100_000 / piece.utf8.count)
        for proposed in [long, long + "x", "x" + long, long + ".txt"] {
            #expect((1...255).contains(FileName.safe(proposed).utf8.count))
        }
    }

    @Test func whateverIsProposedTheNameIsSafe() {
        var generator = SeededGenerator(seed: 57)
        let pieces = [
            ".", "..", "/", "\\", " ", "a", "é", "🚚", "\u{0}", "\u{1B}", "\u{85}", "\u{200D}", "\u{202E}", "\u{2028}",
            "\u{301}", "\u{FE0F}", "\u{3164}", "\u{A0}", "\r\n", ".txt", String(repeating: "b", count: 120),
        ]
        for _ in 0..<10_000 {
            let proposed = (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            let name = FileName.safe(proposed)
            let scalars = name.unicodeScalars
            let isSafe =
                !scalars.isEmpty && name.utf8.count <= 255
                && !scalars.contains { $0 == "/" || $0 == "\\" || $0.isUnsafeToShow || $0.value == 0x200D }
                && [scalars.first, scalars.last].allSatisfy { $0 != "." && $0?.properties.isWhitespace == false }
            #expect(isSafe, "\(proposed.debugDescription) became \(name.debugDescription)")
            #expect(FileName.safe(name) == name, "\(proposed.debugDescription)")
        }
    }

    @Test(arguments: [
        ("name.ext", "name-1.ext"), ("name", "name-1"), ("x.tar.gz", "x-1.tar.gz"), ("x.TAR.GZ", "x-1.TAR.GZ"),
        ("x.tar.zst", "x-1.tar.zst"), ("x.sql.xz", "x-1.sql.xz"), ("x.tar.bz2.asc", "x-1.tar.bz2.asc"),
        ("x.deb.sig", "x-1.deb.sig"), ("a.b.zip", "a.b-1.zip"), ("linux-6.1.gz", "linux-6.1-1.gz"),
        ("linux-6.1.tar.xz", "linux-6.1-1.tar.xz"), (".tar.gz", ".tar-1.gz"), ("x.gz", "x-1.gz"), ("x.", "x-1."),
        ("x.averylongextension.gz", "x.averylongextension-1.gz"), ("x..gz", "x.-1.gz"), ("gz", "gz-1"),
    ])
    func numbersComeBeforeTheExtension(name: String, numbered: String) {
        #expect(FileName.numbered(name, 1) == numbered)
    }
}

@Suite struct ResponseHeadFileNameTests {
    @Test(arguments: [
        (#"attachment; filename="report 7.pdf""#, "report 7.pdf"),
        ("attachment; filename=\"../../etc/.pass\u{7}wd\"", "passwd"),
        ("attachment; filename=a.txt; filename*=UTF-8''%e2%82%ac%2Frates.txt", "rates.txt"),
        (#"attachment; filename="..""#, "download"), ("inline", nil),
    ])
    func theProposedNameIsSafe(field: String, expected: String?) {
        let head = ResponseHead(statusCode: 200, headerFields: ["Content-Disposition": field])
        #expect(head.proposedFileName == expected)
    }

    @Test func noFieldProposesNoName() {
        #expect(ResponseHead(statusCode: 200, url: URL(string: "http://a/b.txt")).proposedFileName == nil)
    }
}
