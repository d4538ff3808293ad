import Foundation
import Testing

@testable import ConvoyCommand

/// Tests command lines in which several options or operands name one file.
///
/// `URL` stands for a URL, and a percent sign for the directory of the test. Its files `a`, `b` and `c.http` exist,
/// `link` is a link to `a`, `hanging` a link to the missing file `new`, and `sub` a directory.
@Suite struct NamedFileTests {
    private static let refused: [(line: String, names: Texts)] = [
        ("fetch -i %a --report %a", ["--input and --report", "another file with --report"]),
        ("fetch -i %a --report %./sub/../a", "--input and --report"), ("fetch -i %a --har %link", "--input and --har"),
        ("fetch --har %hanging --report %new URL", "--har and --report"),
        ("fetch --har %missing/f --report %missing/f URL", "--har and --report"),
        ("fetch -o %f --har %f URL", ["--output and --har", "%f: "]),
        ("fetch -o f -P % --har %f URL", "--output and --har"),
        ("fetch -o '%#1' --har %2 'http://127.0.0.1/[1-3]'", "--output and --har"),
        ("fetch -o %f -D %f URL", "--output and --dump-header"), ("fetch -I -o %f --har %f URL", "--output and --har"),
        ("fetch -P % -O --har %x URL", ["the file of URL 1 and --har", "another file with --har"]),
        ("fetch -P % --existing skip --har %x URL", "the file of URL 1 and --har"),
        ("fetch -P % -T %a http://127.0.0.1/", "--upload-file and the file of URL 1"),
        ("fetch -i %a --save-failed %a --shard 1/3", "which the other shards need"),
        ("fetch -P % -i %a http://127.0.0.1/a", ["--input and the file of URL 1 name", "with --output"]),
        ("fetch -c %a -D %a URL", "--cookie-jar and --dump-header"), ("fetch -b %a -o %a URL", "--cookie and --output"),
        ("fetch -T %a -o %a URL", "--upload-file and --output"), ("fetch -d @%a --har %a URL", "--data and --har"),
        ("fetch --data-urlencode n@%a --har %a URL", "--data-urlencode and --har"),
        ("fetch -F 'n=<%a;type=text/plain' --har %a URL", "--form and --har"),
        ("fetch -H @%a -w @%b --har %b URL", "--write-out and --har"),
        ("fetch -E %a:password --har %a URL", "--cert and --har"),
        ("fetch -K %a --save-failed %a URL", "--config and --save-failed"),
        ("fetch --netrc-file %a --save-failed %a URL", "--netrc-file and --save-failed"),
        ("run %c.http --report %c.http", "the .http file and --report"),
        ("run %c.http --each %a --junit %a", "--each and --junit"),
        ("run %c.http --each %a --done %a", "--each and --done"),
        ("run %c.http --each %a --done %b --har %b", "--done and --har"),
        ("report %a %b --html %b", "the file of events and --html"), ("import %a -o %a", "the document and --output"),
        ("queue add --db %a -i %a", ["--input", "--db"]), ("queue add --db %a -o %a URL", "--db and --output"),
        ("queue run --db %a --har %a", ["--db and --har", "another file with --har"]),
    ]

    private static let accepted = [
        "fetch -b %a -c %a URL", "fetch -z %a -o %a URL", "fetch -P % -z %a http://127.0.0.1/a",
        "fetch -P % --existing rename -i %a http://127.0.0.1/a", "fetch -P % -J -i %a http://127.0.0.1/a",
        "fetch -i %a --save-failed %a", "fetch -o %f -o %f URL URL", "fetch -o - -D - URL",
        "fetch -o /dev/stdout -D /dev/stdout URL", "fetch -o /dev/null -D /dev/null --har /dev/null URL",
        "fetch -o %sub --har %sub/f URL", "fetch --har %a --har %b --report %a URL", "fetch -o %f --har %sub/f URL",
        "fetch -d @%a --data-binary @%a -H @%a URL", "run %c.http --each %a --done %b --har %f", "run - --report -",
        "report %a %a --html %b", "import - -o %a", "queue run --db postgres://h/d --har %a",
    ]

    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        let files = FileManager.default
        for name in ["a", "b", "c.http"] { try Data().write(to: directory.url.appending(path: name)) }
        try files.createDirectory(at: directory.url.appending(path: "sub"), withIntermediateDirectories: false)
        for (link, target) in [("link", "a"), ("hanging", "new")] {
            try files.createSymbolicLink(atPath: directory.url.path + "/" + link, withDestinationPath: target)
        }
    }

    private func filled(_ text: String) -> String { text.replacing("%", with: directory.url.path + "/") }

    private func parse(_ line: String) throws {
        let words = line.replacing("URL", with: "http://127.0.0.1/x").shellWords ?? []
        let arguments = words.dropFirst().map(filled)
        switch words.first {
        case "fetch": _ = try FetchOptions(parsing: arguments)
        case "run": _ = try RunOptions(parsing: arguments)
        case "report": _ = try ReportOptions(parsing: arguments)
        case "import": _ = try ImportOptions(parsing: arguments)
        default: _ = try QueueOptions(parsing: arguments)
        }
    }

    @Test(arguments: refused.indices) func anOutputThatNamesAnotherFileIsRefused(index: Int) throws {
        let (line, names) = Self.refused[index]
        let error = #expect(throws: UsageError.self, "\(line)") { try parse(line) }
        let message = error?.message ?? ""
        for name in names.all + ["name the same file"] {
            #expect(message.contains(filled(name)), "\(line): \(message)")
        }
    }

    @Test(arguments: accepted) func filesThatAreNotReplacedMayBeNamedTwice(line: String) throws {
        try parse(line)
    }

    /// Every option whose value is a file tells the check whether it is read or written.
    @Test func everyOptionForAFileHasAUse() {
        let names = Option.table.filter { $0.valueWord.contains("FILE") && $0.use == nil }.map(\.name)
        #expect(names == [])
    }
}
