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

/// Tests the destinations of bodies: directories of lists, links, devices, and files for error responses.
@Suite struct PlacesRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
        server.respond { _ in .status(200, body: "hello") }
    }

    private func path(_ name: String) -> String { directory.url.appending(path: name).path }
    private func text(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

    private func fetch(_ arguments: String...) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(["--no-config", "--retries=0"] + arguments).ended()
    }

    /// The SHA-256 digest of "hello".
    private static let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

    @Test func namesOfAListMakeTheirDirectories() async throws {
        let list = "\(Self.digest)  ./one/two/a.bin\n\(Self.digest)  b.bin\n\(Self.digest)  ../up/c.bin\n"
        try Data(list.utf8).write(to: directory.url.appending(path: "SUMS"))
        let base = server.url("/files/").absoluteString
        let ending = try await fetch("-P", directory.url.path, "-i", path("SUMS"), "--base", base, "--json")
        #expect(ending.status == 0, "\(ending.errors)\(ending.output)")
        #expect(try text("one/two/a.bin") == "hello" && text("b.bin") == "hello" && text("c.bin") == "hello")
        let files = ending.events(named: "finished").compactMap { $0["file"] as? String }
        #expect(files.contains(path("one/two/a.bin")), "\(files)")
        let flat = try await fetch(
            "-P", directory.url.path, "-i", path("SUMS"), "--base", base, "--no-directories", "--existing", "fail")
        #expect(try text("a.bin") == "hello", "\(flat.errors)")
    }

    @Test func aPartInADirectoryOfAListIsContinued() async throws {
        let body = Reply.pattern(range: 0..<3_000_000)
        server.route("/x/a") { _ in Reply.resource(body, etag: "\"v\"").disconnecting(afterBytes: 2_000_000) }
        try Data("\(server.url("/x/a"))\tone/a\n".utf8).write(to: directory.url.appending(path: "list"))
        let first = try await fetch("-P", directory.url.path, "-i", path("list"))
        #expect(first.status == 1)
        #expect((first.output + first.errors).contains("1 file is kept in part"), "\(first.output)")
        server.route("/x/a") { _ in .resource(body, etag: "\"v\"") }
        let second = try await fetch("-P", directory.url.path, "-i", path("list"))
        #expect(second.output.contains(" of them from an earlier run"), "\(second.output)\(second.errors)")
        #expect(try Data(contentsOf: URL(filePath: path("one/a"))) == body)
    }

    @Test func aReplacedLinkIsReported() async throws {
        try Data("old".utf8).write(to: directory.url.appending(path: "target"))
        symlink("target", path("a"))
        let named = try await fetch("-o", path("a"), server.url("/a").absoluteString)
        #expect(try text("target") == "hello")
        #expect(named.output.contains("saved target  "), "\(named.output)")
        try Data("old".utf8).write(to: directory.url.appending(path: "target"))
        let ending = try await fetch("-P", directory.url.path, server.url("/a").absoluteString)
        #expect(ending.output.contains(", replacing a link\n"), "\(ending.output)")
        #expect(try text("target") == "old" && text("a") == "hello")
    }

    @Test func aDeviceReceivesBodiesOneAfterTheOther() async throws {
        let script = "\"$0\" --no-config -s -o /dev/fd/3 \"$1\" \"$2\" 3> \"$3\""
        let urls = [server.url("/a").absoluteString, server.url("/b").absoluteString]
        let ending = try await ConvoyProcess(shell: script + "; cat \"$3\"", urls + [path("out")]).ended()
        #expect(ending.errors == "")
        let told = try await ConvoyProcess(
            shell: "\"$0\" --no-config -s -o /dev/fd/3 -w '%{http_code}' \"$1\" 3> \"$2\"", [urls[0], path("copy")]
        ).ended()
        #expect(told.output == "200", "\(told.errors)")
        #expect(try text("copy") == "hello")
        let full = try await fetch("-o", "/dev/full", urls[0])
        #expect(full.status == 1)
        #expect(full.errors.contains("/dev/full cannot be written: No space left"), "\(full.errors)")
    }

    @Test func anAnswerToAnUploadReplacesNotTheFileThatWasSent() async throws {
        try Data("mine".utf8).write(to: directory.url.appending(path: "a"))
        for option in ["--json", "--quiet"] {
            let script = "cd \"$1\" && \"$0\" --no-config \"$2\" -T a \"$3\""
            let arguments = [directory.url.path, option, server.url("/").absoluteString]
            #expect(try await ConvoyProcess(shell: script, arguments).ended().status == 0)
            #expect(try await server.takeRequest().target == "/a")
            #expect(try text("a") == "mine")
        }
    }

    @Test func theBodyOfAFailedResponseIsSavedWithTheOption() async throws {
        server.respond { _ in .status(404, headerFields: [("Content-Type", "application/json")], body: #"{"why": 1}"#) }
        let url = server.url("/a").absoluteString
        let printed = try await fetch("--fail-with-body", url)
        #expect(printed.status == 1 && printed.output == #"{"why": 1}"#)
        #expect(printed.errors == "convoy: \(url): 404 Not Found\n")
        let plain = try await fetch("-s", url)
        #expect(plain.status == 1 && plain.output == "")
        #expect(try await fetch("--fail-with-body", "-o", path("x"), url).status == 1)
        #expect(try text("x") == #"{"why": 1}"#)
        #expect(try await fetch("-o", path("y"), url).status == 1)
        #expect(try !directory.names().contains("y"))
    }
}

/// Runs the command with inputs that never end.
@Suite struct EndlessFilesRunningTests {
    /// The shell limits the memory of the command, so that a read without a limit fails instead of filling the machine.
    @Test(arguments: [
        (["run", "/dev/zero"], "cannot read /dev/zero: it is larger than 64 MiB"),
        (["-K", "/dev/zero", "http://127.0.0.1:9/"], "--config cannot read /dev/zero: it is larger than 1 MiB"),
    ])
    func aDeviceIsReadUpToALimit(arguments: [String], message: String) async throws {
        let ending = try await ConvoyProcess(shell: "ulimit -v 4000000; exec \"$0\" \"$@\"", arguments).ended()
        #expect(ending.status == 2 && !ending.isSignalled)
        #expect(ending.errors.contains(message), "\(ending.errors)")
    }
}
