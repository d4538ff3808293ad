import Foundation
import Testing

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
