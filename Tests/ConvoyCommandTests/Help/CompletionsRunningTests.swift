import Foundation
import Testing

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
