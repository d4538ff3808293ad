import Foundation
import Testing

@testable import ConvoyCommand

/// Tests the tables of subcommands and options, and the completion scripts that are made from these tables.
@Suite struct CompletionsTests {
    @Test(arguments: Shell.allCases) func everyCommandAndOptionIsInEveryScript(shell: Shell) {
        let script = shell.completions
        for command in Subcommand.allCases {
            #expect(script.contains(command.rawValue))
            for option in command.options {
                #expect(script.contains(shell == .fish ? "-l \(option.name) " : "--\(option.name)"))
            }
        }
        for value in ["overwrite", "fail", "rename", "skip", "curl", "urlsession", "bash", "zsh", "fish"] {
            #expect(script.contains(value))
        }
    }

    /// Quotes, brackets and similar characters in a summary would need more quoting in the scripts.
    @Test func summariesAreShortAndPlain() {
        for option in Subcommand.allCases.flatMap(\.options) + Subcommand.toolOptions {
            #expect((1...50).contains(option.summary.count))
            #expect(option.summary.allSatisfy { $0.isASCII && !"'\"[]()\\$`:".contains($0) })
        }
        for command in Subcommand.allCases { #expect(!command.summary.contains("'")) }
    }

    @Test func theHelpHasEveryOptionAndNoOther() {
        for command in Subcommand.allCases {
            for option in command.options {
                let spelling = option.short.map { "-\($0), --\(option.name)" } ?? "    --\(option.name)"
                let word = option.valueUsage
                let line = command.help.split(separator: "\n").first { $0.hasPrefix("  \(spelling)\(word)") }
                #expect(line != nil, "\(command.rawValue) \(spelling)\(word)")
            }
            let described = command.help.matches(of: #/(?m)^  (?:-.,|   ) --([a-z0-9-]+)/#).map { String($0.1) }
            #expect(described.count >= (command == .fetch ? 19 : 0))
            #expect(Set(described).isSubset(of: command.options.map(\.name)))
        }
    }
}

/// Runs the completion scripts in their shells.
@Suite struct CompletionsRunningTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// Whether a shell is installed.
    ///
    /// The tests of a shell that is not installed are skipped.
    private static func isInstalled(_ shell: String) -> Bool { path(shell) != nil }

    private static func path(_ shell: String) -> String? {
        ["/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"].map { $0 + shell }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    private func script(_ shell: String) async throws -> String {
        let ending = try await convoy("completions", shell)
        #expect(ending.status == 0)
        #expect(ending.errors == "")
        let file = directory.url.appending(path: "script")
        try Data(ending.output.utf8).write(to: file)
        return file.path
    }

    /// Returns the output of a shell that runs in the test's directory.
    private func run(_ shell: String, _ arguments: [String]) async throws -> (status: Int32, output: String) {
        let process = Process()
        let (output, endings) = (Pipe(), AsyncStream.makeStream(of: Void.self))
        process.executableURL = URL(filePath: try #require(Self.path(shell)))
        process.arguments = arguments
        process.currentDirectoryURL = directory.url
        process.environment = ["HOME": directory.url.path, "PATH": "/usr/bin:/bin", "TERM": "dumb"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        process.terminationHandler = { _ in endings.continuation.finish() }
        try process.run()
        try output.fileHandleForWriting.close()
        let text = await output.text()
        for await _ in endings.stream {}
        return (process.terminationStatus, text)
    }

    @Test(.enabled(if: isInstalled("bash"), "bash is not installed")) func bashReadsItsScript() async throws {
        let ending = try await run("bash", ["-n", try await script("bash")])
        #expect(ending == (0, ""))
    }

    @Test(.enabled(if: isInstalled("zsh"), "zsh is not installed")) func zshReadsItsScript() async throws {
        let ending = try await run("zsh", ["-f", "-n", try await script("zsh")])
        #expect(ending == (0, ""))
    }

    @Test(.enabled(if: isInstalled("fish"), "fish is not installed")) func fishReadsItsScript() async throws {
        let ending = try await run("fish", ["--no-config", "-n", try await script("fish")])
        #expect(ending == (0, ""))
    }

    /// Returns the completions of bash for the last word.
    private func bashCandidates(_ words: [String]) async throws -> [String] {
        let code = """
            source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _convoy; printf '%s\\n' "${COMPREPLY[@]}"
            """
        let ending = try await run("bash", ["-c", code, try await script("bash")] + words)
        #expect(ending.status == 0)
        return ending.output.split(separator: "\n").map(String.init)
    }

    @Test(
        .enabled(if: isInstalled("bash"), "bash is not installed"),
        arguments: [
            (
                ["convoy", ""],
                [
                    "fetch", "run", "report", "import", "queue", "cache", "demo", "completions", "help", "--help",
                    "--version",
                ]
            ),
            (["convoy", "f"], ["fetch"]),
            (["convoy", "fetch", "--se"], ["--segments"]),
            (["convoy", "fetch", "--existing", ""], ["overwrite", "fail", "rename", "skip", "updateIfChanged"]),
            (["convoy", "fetch", "--existing", "=", "s"], ["skip"]),
            (["convoy", "fetch", "--transport", "="], ["curl", "urlsession"]),
            (["convoy", "fetch", "--jobs", ""], []), (["convoy", "completions", "z"], ["zsh"]),
            (["convoy", "demo", "--"], ["--help"]), (["convoy", "nothing", ""], []),
            (["convoy", "--se"], ["--segments"]), (["convoy", "--v"], ["--verbose", "--version"]),
            (["convoy", "--existing", "s"], ["skip"]),
            (["convoy", "https://a/b", "--transport", "="], ["curl", "urlsession"]),
            (["convoy", "-v", "--nets"], []), (["convoy", "-v", "--netrc-"], ["--netrc-file"]),
        ])
    func bashOffersMatchingWords(words: [String], candidates: [String]) async throws {
        #expect(try await bashCandidates(words) == candidates)
    }

    @Test(.enabled(if: isInstalled("bash"), "bash is not installed"))
    func bashOffersFilesAndDirectoriesWhereTheyBelong() async throws {
        try Data().write(to: directory.url.appending(path: "some list"))
        _ = try directory.makeDirectory("some directory")
        #expect(Set(try await bashCandidates(["convoy", "fetch", "-i", "some"])) == ["some list", "some directory"])
        #expect(try await bashCandidates(["convoy", "fetch", "--directory-prefix", "some"]) == ["some directory"])
        #expect(try await bashCandidates(["convoy", "fetch", "-P", "=", "some"]) == ["some directory"])
        // A directory may follow `--cache` only after an equals sign.
        #expect(try await bashCandidates(["convoy", "fetch", "--cache", "=", "some"]) == ["some directory"])
        #expect(try await bashCandidates(["convoy", "fetch", "--cache", "--cache-p"]) == ["--cache-policy"])
    }

    @Test(
        .enabled(if: isInstalled("fish"), "fish is not installed"),
        arguments: [
            ("convoy fetch --existing ", ["fail", "overwrite", "rename", "skip", "updateIfChanged"]),
            ("convoy fetch --transport=c", ["--transport=curl"]), ("convoy co", ["completions"]),
            ("convoy completions ", ["bash", "fish", "zsh"]), ("convoy fetch -P ", ["directory/"]),
            ("convoy help li", ["lists"]), ("convoy --transport=c", ["--transport=curl"]),
            ("convoy --vers", ["--version"]), ("convoy https://a/b --existing s", ["skip"]),
            ("convoy demo --se", []),
        ])
    func fishOffersMatchingWords(line: String, candidates: [String]) async throws {
        _ = try directory.makeDirectory("directory")
        let code = "source $argv[1]; complete -C $argv[2]"
        let ending = try await run("fish", ["--no-config", "-c", code, try await script("fish"), line])
        #expect(ending.status == 0)
        let offered = ending.output.split(separator: "\n").compactMap { $0.split(separator: "\t").first }.map(
            String.init)
        #expect(offered.sorted() == candidates)
    }

    @Test(arguments: [
        ["completions"], ["completions", "tcsh"], ["completions", "bash", "zsh"], ["completions", "-x"],
    ])
    func otherShellsAreRefused(arguments: [String]) async throws {
        let ending = try await ConvoyProcess(arguments).ended()
        #expect(ending.status == 2)
        #expect(ending.output == "")
        #expect(ending.errors.contains("convoy completions --help"))
    }
}

/// Tests `convoy help` and the manual page in the programs that display it.
@Suite struct HelpRunningTests {
    private static func isInstalled(_ program: String) -> Bool {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program)
    }

    @Test(arguments: ["fetch", "lists", "names", "retries", "json", "signals", "cache", "demo", "completions"])
    func everyTopicIsExplained(topic: String) async throws {
        let ending = try await convoy("help", topic)
        #expect(ending.status == 0)
        #expect(ending.output.count > 300)
    }

    @Test func anUnknownTopicNamesTheNearest() async throws {
        let ending = try await convoy("help", "list")
        #expect(ending.status == 2)
        #expect(ending.errors.contains("did you mean lists?"))
        #expect(try await convoy("help").output.contains("Examples:"))
    }

    @Test func anUnknownCommandNamesTheNearest() async throws {
        let ending = try await convoy("fetsh", "http://127.0.0.1/")
        #expect(ending.status == 2)
        #expect(ending.errors.contains("did you mean fetch?"))
    }

    @Test(.enabled(if: isInstalled("mandoc"), "mandoc is not installed"))
    func theManualPageHasNoFault() async throws {
        let directory = try TemporaryDirectory()
        let page = directory.url.appending(path: "convoy.1")
        try Data(try await convoy("help", "man").output.utf8).write(to: page)
        let lint = try await ConvoyProcess(program: "/usr/bin/mandoc", ["-Tlint", "-Wwarning", page.path]).ended()
        #expect(lint.output == "")
        #expect(lint.status == 0)
        let shown = try await ConvoyProcess(program: "/usr/bin/mandoc", ["-Tutf8", page.path]).ended()
        for words in ["convoy", "--save-failed", "https_proxy", "updateIfChanged"] {
            #expect(shown.output.replacing(#/.\u{8}/#, with: "").contains(words), "\(words)")
        }
    }

    @Test(.enabled(if: isInstalled("man"), "man is not installed"))
    func manShowsTheManualPage() async throws {
        let directory = try TemporaryDirectory()
        let page = directory.url.appending(path: "convoy.1")
        try Data(try await convoy("help", "man").output.utf8).write(to: page)
        let shown = try await ConvoyProcess(
            shell: "MANWIDTH=80 MANPAGER=cat MANROFFOPT=-ww man --warnings -l \"$1\"", [page.path]
        ).ended()
        #expect(shown.status == 0)
        #expect(shown.errors == "")
        #expect(shown.output.contains("Credentials and cookies"))
    }
}
