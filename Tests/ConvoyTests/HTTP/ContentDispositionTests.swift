import Foundation
import Testing

@testable import Convoy

@Suite struct ContentDispositionTests {
    private func name(_ values: String...) -> String? {
        HeaderFields(values.map { ("content-disposition", $0) }).proposedFileName
    }

    /// Field values and their file names, with examples of RFC 6266, section 5.
    @Test(
        arguments: [
            (#"attachment; filename="a.txt""#, "a.txt"), ("attachment; filename=a.txt", "a.txt"),
            ("Attachment; FileName=example.html", "example.html"),
            (#"INLINE; FILENAME= "an example.html""#, "an example.html"),
            (#"attachment;filename="a;b,c=d.txt";size=5"#, "a;b,c=d.txt"), (#"attachment; a="b;c"; filename=d"#, "d"),
            (#"form-data; name="x"; filename="a.txt""#, "a.txt"), (#"x-unknown ; filename = "a.txt" "#, "a.txt"),
            (#"attachment; filename="a\"b\\c\d.txt""#, #"a"b\cd.txt"#), (#"attachment; filename="\\\\""#, #"\\"#),
            ("attachment; filename=a%20b.txt", "a%20b.txt"),
            (#"attachment; filename="=?UTF-8?Q?a?=""#, "=?UTF-8?Q?a?="), ("attachment; filename=\ta.txt\t;", "a.txt"),
            (#"attachment; filename=" a ""#, " a "), (#"attachment; xfilename=b; filename="a""#, "a"),
            ("attachment; filename=\"a\tb\"", "a\tb"),
            // Extended values (RFC 8187, section 3.2) and their file names.
            ("attachment; filename*=UTF-8''%e2%82%ac%20rates", "€ rates"),
            ("attachment; filename*=utf-8'en'a%C3%A9", "aé"),
            ("attachment; filename*=ISO-8859-1''%A3%20rates", "£ rates"),
            ("attachment; filename*=iso-8859-1'de-DE'%FF", "ÿ"), ("attachment; FILENAME*=UTF-8''a.txt", "a.txt"),
            ("attachment; filename*=UTF-8''it's", "it's"), ("attachment; filename*=UTF-8''a+b%2Fc%00", "a+b/c\u{0}"),
            (#"attachment; filename*="UTF-8''a%20b""#, "a b"),
            ("attachment; filename*=UTF-8''a b.txt ; x=y", "a b.txt"), ("attachment; filename* = UTF-8''a", "a"),
            ("attachment; filename*=UTF-8''%F0%9F%9A%9A", "🚚"), ("attachment; filename*=utf8''%C3%A9", "é"),
            ("attachment; filename=a; filename*=UTF8'en'%C3%A9", "é"),
            ("attachment; filename*=UTF-8''na\u{EF}ve", "na\u{EF}ve"), ("attachment; filename=a; filename=b", "a"),
            (#"attachment; filename="a"; FileName=b"#, "a"),
            ("attachment; filename*=UTF-8''a; filename*=UTF-8''b", "a"),
            ("attachment; filename*=UTF-8''%FF; filename*=UTF-8''b", nil),
            (#"attachment; filename=""; filename=b"#, nil), ("attachment; filename=; filename=b", nil),
            (#"attachment; filename="a", attachment; filename="b""#, "a"),
            (#"attachment; filename="EURO rates"; filename*=utf-8''%e2%82%ac%20rates"#, "€ rates"),
            (#"attachment; filename*=utf-8''%e2%82%ac%20rates; filename="EURO rates""#, "€ rates"),
            // Many servers send the parameters without a disposition type.
            (#"filename="report.pdf""#, "report.pdf"), ("filename=report.pdf", "report.pdf"),
            (#" FileName = "report.pdf" "#, "report.pdf"), (#"filename="report.pdf"; size=5"#, "report.pdf"),
            (#"name="x"; filename="report.pdf""#, "report.pdf"),
            ("filename*=UTF-8''r%C3%A9sum%C3%A9.pdf", "résumé.pdf"),
            (#"filename="a.pdf"; filename*=UTF-8''b.pdf"#, "b.pdf"), (#"filename=a; filename=b"#, "a"),
            (#"filename="a;b.pdf""#, "a;b.pdf"), (#"; filename="a""#, "a"),
            ("attachment; filename=my file.txt", "my file.txt"), ("attachment; filename=a,b.txt; size=5", "a,b.txt"),
            (#"attachment; filename="a" "b; c"; x=y"#, "a"), ("attachment;;filename=a", "a"),
            (#"attachment; filename="a".txt"#, "a"), ("attachment; filename=C:\\dir\\a.txt", "C:\\dir\\a.txt"),
            ("attachment; filename==a", "=a"), ("attachment; x; filename=a; y", "a"),
            ("attachment; filename='a'", "'a'"),
        ] as [(String, String?)])
    func theNameOfAFieldIsRead(value: String, expected: String?) {
        #expect(name(value) == expected)
    }

    @Test(arguments: [
        "UTF-8''%FF", "UTF-8''%C3", "UTF-8''%C3%28", "UTF-8''%ED%A0%80", "UTF-8''%C0%AF", "UTF-8''%F4%90%80%80",
        "UTF-8''a%", "UTF-8''a%4", "UTF-8''a%4g", "UTF-8''a%%41", "UTF-8''%\u{FF14}\u{FF11}", "UTF-8''", "UTF-8'a",
        "UTF-8", "''a", "'en'a", "a", "", "UTF-16''%00a", "windows-1252''a", "US-ASCII''a", "ISO-8859-1''\u{E9}",
        "ISO-8859-1''", "\"UTF-8''b", "UTF-8''\"b\"", "UTF-8 ''b",
    ])
    func unreadableExtendedNameFallsBack(value: String) {
        #expect(name("attachment; filename=a; filename*=\(value)") == "a")
        #expect(name("attachment; filename*=\(value)") == nil)
    }

    @Test func firstFieldThatNamesCounts() {
        #expect(name("attachment; filename=a", "attachment; filename=b") == "a")
        #expect(name("attachment", "attachment; filename=b") == "b")
        #expect(name() == nil)
    }

    @Test(arguments: [
        "", " ", ";", ";;;", "=", "attachment", "attachment;", "attachment; filename", "attachment; filename;",
        "attachment; filename=", #"attachment; filename="""#, #"attachment; filename="a"#,
        #"attachment; filename="a\""#, #"attachment; filename=""#, #"attachment; filename="a\"#,
        #"filename="a; filename=b"#, #""attachment; filename=a""#, #""x; filename=a; y""#,
        #"attachment; x="a" "b; filename=c; d""#, #"attachment; filename=a"b""#, #"attachment; x="; filename=a"#,
        "attachment, filename=a", "attachment; filename*0=a", "attachment; filename-x=a", "attachment; file name=a",
        #"attachment; "filename"=a"#,
    ])
    func aMalformedFieldGivesNoName(value: String) {
        #expect(name(value) == nil)
    }

    /// The header's reader keeps unsafe names, because `FileName.safe` makes them safe later.
    @Test(arguments: [
        "../../x", "/etc/x", ".bashrc", "a\u{0}b", "a\u{202E}gpj.exe", "CON", "..", "a\r\nb", "\u{7F}",
        "na\u{EF}ve.txt", "\u{E9}", "\u{A3} rates", "\u{FF}\u{FE}", "\u{C3}",
    ])
    func proposalIsNotMadeSafe(expected: String) {
        #expect(name("attachment; filename=\"\(expected)\"") == expected)
    }

    @Test(arguments: ["naïve.txt", "€.txt", "日本語.txt", "🚚", "\u{80}", "e\u{301}"])
    func nameIsTheSameHoweverALoaderReadTheBytes(expected: String) {
        let asLatin = String(String.UnicodeScalarView(expected.utf8.map { Unicode.Scalar($0) }))
        for text in [expected, asLatin] {
            #expect(name("attachment; filename=\"\(text)\"") == expected)
            #expect(name("attachment; filename=\(text); filename*=UTF-8''%FF") == expected)
        }
    }
}
