import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Tests names, digests and existing files.
@Suite struct FilesRunningTests {
    /// The SHA-256 digest of "abc" (FIPS 180-2, appendix B.1).
    private static let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    private static let wrongDigits = String(digits.reversed())

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
        server.respond { _ in .status(200, body: "abc") }
    }

    private func fetch(_ arguments: String...) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(["fetch", "-o", directory.url.path] + arguments).ended()
    }

    private func url(_ path: String) -> String { server.url(path).absoluteString }

    private func content(_ name: String) throws -> String {
        try String(contentsOf: directory.url.appending(path: name), encoding: .utf8)
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: directory.url.appending(path: name))
    }

    @Test(arguments: [0o600, 0o640, 0o664, 0o755]) func replacedFilesKeepTheirMode(mode: Int) async throws {
        let names = ["a", "a.har", "jar", "report.html", "failed", "heads"]
        for name in names {
            try write("old", to: name)
            #expect(chmod(directory.file(name).path, mode_t(mode)) == 0)
        }
        func path(_ name: String) -> String { directory.file(name).path }
        let ending = try await fetch(
            "--har", path("a.har"), "-c", path("jar"), "--report", path("report.html"), "-D", path("heads"),
            "--save-failed", path("failed"), url("/a"))
        #expect(ending.status == 0, "\(ending.errors)")
        for name in names {
            #expect(try content(name) != "old", "\(name)")
            let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
            #expect(attributes[.posixPermissions] as? Int == mode, "\(name)")
        }
    }

    /// Values that servers send by mistake, and codings that no client decodes.
    @Test(arguments: [
        "UTF-8", "utf8", "binary", "none", "aws-chunked", "base64", "7bit", "text/plain",
        "chunked", "aes128gcm", "gzip, gzip, gzip, gzip, gzip, gzip",
    ])
    func bodiesAreStoredWhateverTheirCodingIsCalled(coding: String) async throws {
        server.respond { _ in .status(200, headerFields: [("Content-Encoding", coding)], body: "abc") }
        for options in [[], ["--compressed"], ["--segments", "2"]] {
            let ending = try await ConvoyProcess(["-o", directory.url.path] + options + [url("/a")]).ended()
            #expect(ending.status == 0, "\(ending.errors)")
            #expect(try content("a") == "abc")
        }
        let printed = try await ConvoyProcess(["-o", "-", url("/a")]).ended()
        #expect(printed.status == 0 && printed.output == "abc", "\(printed.errors)")
        let discarded = try await ConvoyProcess(["--discard", url("/a")]).ended()
        #expect(discarded.status == 0, "\(discarded.errors)")
        try write("GET \(url("/a"))\n", to: "a.http")
        let run = try await ConvoyProcess(["run", directory.file("a.http").path]).ended()
        #expect(run.status == 0, "\(run.errors)")
    }

    @Test func existingFilesAreReplacedByDefault() async throws {
        try write("old", to: "a")
        #expect(try await fetch(url("/a")).status == 0)
        #expect(try content("a") == "abc")
    }

    @Test func skippedFilesAreReportedAndNoRequestIsSent() async throws {
        try write("old", to: "a")
        let ending = try await fetch("--existing", "skip", url("/a"), url("/b"))
        #expect(ending.status == 0)
        #expect(ending.output.contains("skipped a  the file exists\n"))
        #expect(ending.output.contains("1 file, 3 B in "))
        #expect(ending.output.contains(", 1 skipped\n"))
        #expect(try content("a") == "old")
        #expect(server.requestCount == 1)
    }

    @Test func jsonReportsSkippedFiles() async throws {
        try write("old", to: "a")
        let ending = try await fetch("--json", "--existing=skip", url("/a"))
        let skipped = try #require(ending.events(named: "skipped").first)
        #expect(Set(skipped.keys) == ["event", "index", "url", "file"])
        #expect(skipped["file"] as? String == directory.url.path + "/a")
        #expect(ending.events.last?["skipped"] as? Int == 1)
        #expect(ending.events.last?["succeeded"] as? Int == 0)
        #expect(ending.events.last?["exit_status"] as? Int == 0)
        #expect(server.requestCount == 0)
    }

    @Test func aFileInTheWayIsAFailureOrGetsANumber() async throws {
        try write("old", to: "a.txt")
        let failing = try await fetch("--existing=fail", url("/a.txt"))
        #expect(failing.status == 1)
        #expect(failing.errors.contains("exists already; remove it, or choose another option with --existing"))
        #expect(failing.output.contains("1 failed (1 destination exists); exit status 1"))
        let renaming = try await fetch("--existing=rename", "--json", url("/a.txt"))
        #expect(renaming.events(named: "finished").first?["file"] as? String == directory.url.path + "/a-1.txt")
        #expect(try content("a.txt") == "old")
        #expect(try content("a-1.txt") == "abc")
    }

    @Test func aRightDigestIsVerified() async throws {
        #expect(try await fetch("--sha256", Self.digits.uppercased(), url("/a")).status == 0)
        #expect(try content("a") == "abc")
        let again = try await fetch("--existing=skip", "--sha256", Self.digits, url("/a"))
        #expect(again.output.contains("skipped a  the file exists and has the expected digest\n"))
        #expect(server.requestCount == 1)
    }

    @Test func aWrongDigestFailsAndNothingIsKept() async throws {
        try write("old", to: "a")
        let ending = try await fetch("--json", "--sha256", Self.wrongDigits, url("/a"))
        #expect(ending.status == 1)
        #expect(ending.events(named: "failed").first?["code"] as? String == "integrityFailed")
        #expect((ending.events.last?["failures"] as? [String: Int]) == ["integrityFailed": 1])
        #expect(try directory.names() == ["a"])
        #expect(try content("a") == "old")
    }

    @Test func aFileWithAnotherDigestIsNotSkipped() async throws {
        try write("old", to: "a")
        let ending = try await fetch("--existing=skip", "--sha256", Self.digits, url("/a"))
        #expect(ending.status == 0)
        #expect(server.requestCount == 1)
        #expect(try content("a") == "abc")
    }

    @Test func aListHasDigestsInItsThirdColumn() async throws {
        let text = """
            \(url("/a"))\t\tsha256:\(Self.digits)
            \(url("/b"))\tnamed\tsha256:\(Self.wrongDigits)
            \(url("/c"))\tc\tsha256:00
            """
        let list = try TemporaryDirectory()
        let file = list.url.appending(path: "list")
        try Data(text.utf8).write(to: file)
        let ending = try await fetch("-i", file.path)
        #expect(ending.status == 1)
        let lines = ending.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.contains { $0.hasPrefix("convoy: line 3 of ") && $0.contains("third column") })
        #expect(lines.contains { $0.contains("instead of sha256:") })
        #expect(ending.output.contains("1 file, 3 B in "))
        #expect(ending.output.contains("2 failed (1 integrity failed, 1 invalid request); exit status 1"))
        #expect(try directory.names() == ["a"])
        #expect(server.requestCount == 2)
    }

    @Test func theServerNamesFilesThatTheListDoesNot() async throws {
        let fields = [("Content-Disposition", "attachment; filename=\"/etc/.pro\u{7}posed.txt\"")]
        server.respond { _ in .status(200, headerFields: fields, body: "abc") }
        try write("old", to: "proposed.txt")
        let list = try TemporaryDirectory()
        let file = list.url.appending(path: "list")
        try Data("\(url("/b"))\tgiven.txt\n".utf8).write(to: file)
        let ending = try await fetch("--json", "--content-disposition", url("/a"), "-i", file.path)
        #expect(ending.status == 0)
        let names = ending.events(named: "finished").compactMap { $0["file"] as? String }
        #expect(Set(names) == [directory.url.path + "/proposed-1.txt", directory.url.path + "/given.txt"])
        #expect(try directory.names().sorted() == ["given.txt", "proposed-1.txt", "proposed.txt"])
        #expect(try content("proposed.txt") == "old")
    }
}
