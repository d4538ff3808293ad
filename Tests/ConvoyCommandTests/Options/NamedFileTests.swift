import Foundation
import Testing

@testable import ConvoyCommand

/// Tests command lines in which several options or operands name one file.
///
/// A percent sign stands for the directory of the test. Its files `a`, `b` and `c.http` exist, `link` is a link to `a`,
/// `hanging` a link to the missing file `new`, and `sub` a directory.
@Suite struct NamedFileTests {
    private static let url = "http://127.0.0.1/x"

    private static let refused: [([String], [String])] = [
        (["fetch", "-i", "%a", "--report", "%a"], ["--input and --report", "another file with --report"]),
        (["fetch", "-i", "%a", "--report", "%./sub/../a"], ["--input and --report"]),
        (["fetch", "-i", "%a", "--har", "%link"], ["--input and --har"]),
        (["fetch", "--har", "%hanging", "--report", "%new", url], ["--har and --report"]),
        (["fetch", "--har", "%missing/f", "--report", "%missing/f", url], ["--har and --report"]),
        (["fetch", "-o", "%f", "--har", "%f", url], ["--output and --har", "%f: "]),
        (["fetch", "-o", "f", "-P", "%", "--har", "%f", url], ["--output and --har"]),
        (["fetch", "-o", "%#1", "--har", "%2", "http://127.0.0.1/[1-3]"], ["--output and --har"]),
        (["fetch", "-o", "%f", "-D", "%f", url], ["--output and --dump-header"]),
        (["fetch", "-I", "-o", "%f", "--har", "%f", url], ["--output and --har"]),
        (["fetch", "-P", "%", "-O", "--har", "%x", url], ["the file of URL 1 and --har", "another file with --har"]),
        (["fetch", "-P", "%", "--existing", "skip", "--har", "%x", url], ["the file of URL 1 and --har"]),
        (["fetch", "-P", "%", "-T", "%a", "http://127.0.0.1/"], ["--upload-file and the file of URL 1"]),
        (["fetch", "-i", "%a", "--save-failed", "%a", "--shard", "1/3"], ["which the other shards need"]),
        (
            ["fetch", "-P", "%", "-i", "%a", "http://127.0.0.1/a"],
            ["--input and the file of URL 1 name", "with --output"]
        ),
        (["fetch", "-c", "%a", "-D", "%a", url], ["--cookie-jar and --dump-header"]),
        (["fetch", "-b", "%a", "-o", "%a", url], ["--cookie and --output"]),
        (["fetch", "-T", "%a", "-o", "%a", url], ["--upload-file and --output"]),
        (["fetch", "-d", "@%a", "--har", "%a", url], ["--data and --har"]),
        (["fetch", "--data-urlencode", "n@%a", "--har", "%a", url], ["--data-urlencode and --har"]),
        (["fetch", "-F", "n=<%a;type=text/plain", "--har", "%a", url], ["--form and --har"]),
        (["fetch", "-H", "@%a", "-w", "@%b", "--har", "%b", url], ["--write-out and --har"]),
        (["fetch", "-E", "%a:password", "--har", "%a", url], ["--cert and --har"]),
        (["fetch", "-K", "%a", "--save-failed", "%a", url], ["--config and --save-failed"]),
        (["fetch", "--netrc-file", "%a", "--save-failed", "%a", url], ["--netrc-file and --save-failed"]),
        (["run", "%c.http", "--report", "%c.http"], ["the .http file and --report"]),
        (["run", "%c.http", "--each", "%a", "--junit", "%a"], ["--each and --junit"]),
        (["run", "%c.http", "--each", "%a", "--done", "%a"], ["--each and --done"]),
        (["run", "%c.http", "--each", "%a", "--done", "%b", "--har", "%b"], ["--done and --har"]),
        (["report", "%a", "%b", "--html", "%b"], ["the file of events and --html"]),
        (["import", "%a", "-o", "%a"], ["the document and --output"]),
        (["queue", "add", "--db", "%a", "-i", "%a"], ["--input", "--db"]),
        (["queue", "add", "--db", "%a", "-o", "%a", url], ["--db and --output"]),
        (["queue", "run", "--db", "%a", "--har", "%a"], ["--db and --har", "another file with --har"]),
    ]

    private static let accepted: [[String]] = [
        ["fetch", "-b", "%a", "-c", "%a", url],
        ["fetch", "-z", "%a", "-o", "%a", url],
        ["fetch", "-P", "%", "-z", "%a", "http://127.0.0.1/a"],
        ["fetch", "-P", "%", "--existing", "rename", "-i", "%a", "http://127.0.0.1/a"],
        ["fetch", "-P", "%", "-J", "-i", "%a", "http://127.0.0.1/a"],
        ["fetch", "-i", "%a", "--save-failed", "%a"],
        ["fetch", "-o", "%f", "-o", "%f", url, url],
        ["fetch", "-o", "-", "-D", "-", url],
        ["fetch", "-o", "/dev/stdout", "-D", "/dev/stdout", url],
        ["fetch", "-o", "/dev/null", "-D", "/dev/null", "--har", "/dev/null", url],
        ["fetch", "-o", "%sub", "--har", "%sub/f", url],
        ["fetch", "--har", "%a", "--har", "%b", "--report", "%a", url],
        ["fetch", "-o", "%f", "--har", "%sub/f", url],
        ["fetch", "-d", "@%a", "--data-binary", "@%a", "-H", "@%a", url],
        ["run", "%c.http", "--each", "%a", "--done", "%b", "--har", "%f"],
        ["run", "-", "--report", "-"],
        ["report", "%a", "%a", "--html", "%b"],
        ["import", "-", "-o", "%a"],
        ["queue", "run", "--db", "postgres://h/d", "--har", "%a"],
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

    private func parse(_ words: [String]) throws {
        let arguments = words.dropFirst().map(filled)
        switch words[0] {
        case "fetch": _ = try FetchOptions(parsing: arguments)
        case "run": _ = try RunOptions(parsing: arguments)
        case "report": _ = try ReportOptions(parsing: arguments)
        case "import": _ = try ImportOptions(parsing: arguments)
        default: _ = try QueueOptions(parsing: arguments)
        }
    }

    @Test(arguments: refused.indices) func anOutputThatNamesAnotherFileIsRefused(index: Int) throws {
        let (words, names) = Self.refused[index]
        let error = #expect(throws: UsageError.self, "\(words)") { try parse(words) }
        let message = error?.message ?? ""
        for name in names + ["name the same file"] { #expect(message.contains(filled(name)), "\(words): \(message)") }
    }

    @Test(arguments: accepted) func filesThatAreNotReplacedMayBeNamedTwice(words: [String]) throws {
        try parse(words)
    }

    /// Every option whose value is a file tells the check whether it is read or written.
    @Test func everyOptionForAFileHasAUse() {
        let names = Option.table.filter { $0.valueWord.contains("FILE") && $0.use == nil }.map(\.name)
        #expect(names == [])
    }
}
