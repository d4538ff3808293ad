import Foundation
import Testing

@testable import ConvoyCommand

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

@Suite struct CompletionsRunningTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private static func path(_ shell: String) -> String? {
        ["/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"].map { $0 + shell }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    private static func isInstalled(_ shell: String) -> Bool { path(shell) != nil }

    private func script(_ shell: String) async throws -> String {
        let file = directory.file("script")
        try Data(try await convoy("completions", shell, errors: "").output.utf8).write(to: file)
        return file.path
    }

    private func run(_ shell: String, _ arguments: [String]) async throws -> String {
        let variables: [String: String?] = ["HOME": directory.url.path, "PATH": "/usr/bin:/bin"]
        let ending = try await ConvoyProcess(
            program: Self.path(shell), arguments, in: directory.url, variables: variables
        ).ended(status: 0)
        return ending.output + ending.errors
    }

    @Test(arguments: [("bash", ["-n"]), ("zsh", ["-f", "-n"]), ("fish", ["--no-config", "-n"])])
    func aShellReadsItsScript(shell: String, arguments: [String]) async throws {
        guard Self.isInstalled(shell) else { return }
        #expect(try await run(shell, arguments + [script(shell)]) == "")
    }

    /// What bash offers for the last word of a line, with blanks between.
    private func bashCandidates(_ line: String) async throws -> String {
        let code = """
            source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _convoy; printf '%s\\n' "${COMPREPLY[@]}"
            """
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        return try await run("bash", ["-c", code, script("bash")] + words).split(separator: "\n").joined(separator: " ")
    }

    @Test(
        .enabled(if: isInstalled("bash"), "bash is not installed"),
        arguments: [
            ("convoy ", "fetch run report import queue cache demo completions help --help --version"),
            ("convoy f", "fetch"), ("convoy fetch --se", "--segments"),
            ("convoy fetch --existing ", "overwrite fail rename skip updateIfChanged"),
            ("convoy fetch --existing = s", "skip"), ("convoy fetch --transport =", "curl urlsession"),
            ("convoy fetch --jobs ", ""), ("convoy completions z", "zsh"), ("convoy demo --", "--help"),
            ("convoy nothing ", ""), ("convoy --se", "--segments"), ("convoy --v", "--verbose --version"),
            ("convoy --existing s", "skip"), ("convoy https://a/b --transport =", "curl urlsession"),
            ("convoy -v --nets", ""), ("convoy -v --netrc-", "--netrc-file"),
            // A directory may follow `--cache` only after an equals sign.
            ("convoy fetch --cache --cache-p", "--cache-policy"),
        ])
    func bashOffersMatchingWords(line: String, candidates: String) async throws {
        #expect(try await bashCandidates(line) == candidates)
    }

    @Test(
        .enabled(if: isInstalled("bash"), "bash is not installed"),
        arguments: ["--directory-prefix some", "-P = some", "--cache = some"])
    func bashOffersFilesAndDirectoriesWhereTheyBelong(option: String) async throws {
        try Data().write(to: directory.url.appending(path: "some list"))
        _ = try directory.makeDirectory("some directory")
        let files = try await bashCandidates("convoy fetch -i some")
        #expect(["some list some directory", "some directory some list"].contains(files))
        #expect(try await bashCandidates("convoy fetch \(option)") == "some directory")
    }

    @Test(
        .enabled(if: isInstalled("fish"), "fish is not installed"),
        arguments: [
            ("convoy fetch --existing ", "fail overwrite rename skip updateIfChanged"),
            ("convoy fetch --transport=c", "--transport=curl"), ("convoy co", "completions"),
            ("convoy completions ", "bash fish zsh"), ("convoy fetch -P ", "directory/"),
            ("convoy help li", "lists"), ("convoy --transport=c", "--transport=curl"),
            ("convoy --vers", "--version"), ("convoy https://a/b --existing s", "skip"), ("convoy demo --se", ""),
        ])
    func fishOffersMatchingWords(line: String, candidates: String) async throws {
        _ = try directory.makeDirectory("directory")
        let code = "source $argv[1]; complete -C $argv[2]"
        let output = try await run("fish", ["--no-config", "-c", code, script("fish"), line])
        let offered = output.split(separator: "\n").compactMap { $0.split(separator: "\t").first }
        #expect(offered.sorted().joined(separator: " ") == candidates)
    }
}

/// Tests `convoy help` and the manual page in the programs that display it.
@Suite final class HelpRunningTests: CommandTests {
    private static func isInstalled(_ program: String) -> Bool {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program)
    }

    @Test(arguments: ["fetch", "lists", "names", "retries", "json", "signals", "cache", "demo", "completions"])
    func everyTopicIsExplained(topic: String) async throws {
        #expect(try await convoy("help", topic).output.count > 300)
    }

    @Test func anUnknownTopicOrCommandNamesTheNearest() async throws {
        try await convoy("help", "list", status: 2, errors: "did you mean lists?")
        try await convoy("help", prints: "Examples:")
        try await convoy("fetsh", "http://127.0.0.1/", status: 2, errors: "did you mean fetch?")
    }

    @Test(.enabled(if: isInstalled("mandoc"), "mandoc is not installed"))
    func theManualPageHasNoFault() async throws {
        let page = try write(await convoy("help", "man").output, to: "convoy.1")
        try await ConvoyProcess(program: "/usr/bin/mandoc", ["-Tlint", "-Wwarning", page]).ended(status: 0, prints: "")
        let shown = try await ConvoyProcess(program: "/usr/bin/mandoc", ["-Tutf8", page]).ended()
        for words in ["convoy", "--save-failed", "https_proxy", "updateIfChanged"] {
            #expect(shown.output.replacing(#/.\u{8}/#, with: "").contains(words), "\(words)")
        }
    }

    @Test(.enabled(if: isInstalled("man"), "man is not installed"))
    func manShowsTheManualPage() async throws {
        let page = try write(await convoy("help", "man").output, to: "convoy.1")
        try await convoy(
            shell: "MANWIDTH=80 MANPAGER=cat MANROFFOPT=-ww man --warnings -l \"$1\"", page,
            prints: "Credentials and cookies", errors: "")
    }
}
