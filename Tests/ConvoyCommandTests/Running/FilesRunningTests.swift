import Convoy
import Foundation
import Testing

@Suite final class FilesRunningTests: CommandTests {
    /// The SHA-256 digest of "abc" (FIPS 180-2, appendix B.1).
    private static let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    private static let wrongDigits = String(digits.reversed())

    override init() throws {
        try super.init()
        server.respond { _ in .status(200, body: "abc") }
    }

    @Test(arguments: [0o600, 0o640, 0o664, 0o755]) func replacedFilesKeepTheirMode(mode: Int) async throws {
        let names = ["a", "a.har", "jar", "report.html", "failed", "heads"]
        for name in names { #expect(try chmod(write("old", to: name), mode_t(mode)) == 0) }
        try await fetch(
            "--har", path("a.har"), "-c", path("jar"), "--report", path("report.html"), "-D", path("heads"),
            "--save-failed", path("failed"), url("/a"))
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
            try await fetch(options, url("/a"))
            #expect(try content("a") == "abc")
        }
        #expect(try await convoy("-o", "-", url("/a")).output == "abc")
        try await convoy("--discard", url("/a"))
        try await run("GET BASE/a\n")()
    }

    @Test func skippedFilesAreReportedAndNoRequestIsSent() async throws {
        try write("old", to: "a")
        let json = try await fetch("--json", "--existing=skip", url("/a"))
        #expect(json.events(named: "skipped").map { Set($0.keys) } == [["event", "index", "url", "file"]])
        #expect(json.values("skipped", "file") == path("a"))
        #expect(json.values("summary", "skipped", "succeeded", "exit_status") == "1 0 0")
        try await fetch(
            "--existing", "skip", url("/a"), url("/b"),
            prints: ["skipped a  the file exists\n", "1 file, 3 B in ", ", 1 skipped\n"])
        #expect(try content("a") == "old")
        #expect(server.requestCount == 1)
    }

    @Test func aFileInTheWayIsAFailureOrGetsANumber() async throws {
        try write("old", to: "a.txt")
        try await fetch(
            "--existing=fail", url("/a.txt"), status: 1, prints: "1 failed (1 destination exists); exit status 1",
            errors: "exists already; remove it, or choose another option with --existing")
        let renaming = try await fetch("--existing=rename", "--json", url("/a.txt"))
        #expect(renaming.events(named: "finished").first?["file"] as? String == path("a-1.txt"))
        #expect(try content("a.txt") == "old" && content("a-1.txt") == "abc")
    }

    @Test func aRightDigestIsVerified() async throws {
        try write("old", to: "a")
        // A file with another digest is not skipped.
        try await fetch("--existing=skip", "--sha256", Self.digits.uppercased(), url("/a"))
        #expect(try content("a") == "abc")
        try await fetch(
            "--existing=skip", "--sha256", Self.digits, url("/a"),
            prints: "skipped a  the file exists and has the expected digest\n")
        #expect(server.requestCount == 1)
    }

    @Test func aWrongDigestFailsAndNothingIsKept() async throws {
        try write("old", to: "a")
        let ending = try await fetch("--json", "--sha256", Self.wrongDigits, url("/a"), status: 1)
        #expect(ending.events(named: "failed").first?["code"] as? String == "integrityFailed")
        #expect((ending.events.last?["failures"] as? [String: Int]) == ["integrityFailed": 1])
        #expect(try directory.names() == ["a"])
        #expect(try content("a") == "old")
    }

    @Test func aListHasDigestsInItsThirdColumn() async throws {
        let list = """
            BASE/a\t\tsha256:\(Self.digits)
            BASE/b\tnamed\tsha256:\(Self.wrongDigits)
            BASE/c\tc\tsha256:00
            """
        let ending = try await fetch("-i", write(list, to: "list"), status: 1)
        let lines = ending.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.contains { $0.hasPrefix("convoy: line 3 of ") && $0.contains("third column") })
        #expect(lines.contains { $0.contains("instead of sha256:") })
        #expect(ending.output.contains("1 file, 3 B in "))
        #expect(ending.output.contains("2 failed (1 integrity failed, 1 invalid request); exit status 1"))
        #expect(try directory.names() == ["a", "list"])
        #expect(server.requestCount == 2)
    }

    @Test func theServerNamesFilesThatTheListDoesNot() async throws {
        let fields = [("Content-Disposition", "attachment; filename=\"/etc/.pro\u{7}posed.txt\"")]
        server.respond { _ in .status(200, headerFields: fields, body: "abc") }
        try write("old", to: "proposed.txt")
        let list = try write("BASE/b\tgiven.txt\n", to: "list")
        let ending = try await fetch("--json", "--content-disposition", url("/a"), "-i", list)
        let names = ending.events(named: "finished").compactMap { $0["file"] as? String }
        #expect(Set(names) == [path("proposed-1.txt"), path("given.txt")])
        #expect(try directory.names() == ["given.txt", "list", "proposed-1.txt", "proposed.txt"])
        #expect(try content("proposed.txt") == "old")
    }
}

/// Tests the destinations of bodies: directories of lists, links, devices, and files for error responses.
@Suite final class PlacesRunningTests: CommandTests {
    /// The SHA-256 digest of "hello".
    static let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

    override init() throws {
        try super.init()
        server.respond { _ in .status(200, body: "hello") }
    }

    @Test func namesOfAListMakeTheirDirectories() async throws {
        let sums = ["./one/two/a.bin", "b.bin", "../up/c.bin"].map { "\(Self.digest)  \($0)\n" }.joined()
        let arguments = ["-i", try write(sums, to: "SUMS"), "--base", url("/files/"), "--json"]
        let ending = try await fetch(arguments)
        #expect(try content("one/two/a.bin") == "hello" && content("b.bin") == "hello" && content("c.bin") == "hello")
        let files = ending.events(named: "finished").compactMap { $0["file"] as? String }
        #expect(files.contains(path("one/two/a.bin")), "\(files)")
        let flat = try await fetch(arguments, "--no-directories", "--existing", "fail", status: nil)
        #expect(try content("a.bin") == "hello", "\(flat.errors)")
    }

    @Test func aPartInADirectoryOfAListIsContinued() async throws {
        let body = Reply.pattern(range: 0..<3_000_000)
        server.route("/x/a") { _ in Reply.resource(body, etag: "\"v\"").disconnecting(afterBytes: 2_000_000) }
        let list = try write("BASE/x/a\tone/a\n", to: "list")
        let first = try await fetch("--retries=0", "-i", list, status: 1)
        #expect((first.output + first.errors).contains("1 file is kept in part"), "\(first.output)")
        server.route("/x/a") { _ in .resource(body, etag: "\"v\"") }
        try await fetch("-i", list, prints: " of them from an earlier run")
        #expect(try data("one/a") == body)
    }

    @Test func aReplacedLinkIsReported() async throws {
        try write("old", to: "target")
        symlink("target", path("a"))
        try await convoy("--no-config", "-o", path("a"), url("/a"), prints: "saved target  ")
        #expect(try content("target") == "hello")
        try write("old", to: "target")
        try await fetch(url("/a"), prints: ", replacing a link\n")
        #expect(try content("target") == "old" && content("a") == "hello")
    }

    @Test func aDeviceReceivesBodiesOneAfterTheOther() async throws {
        let script = "\"$0\" --no-config -s -o /dev/fd/3 \"$1\" \"$2\" 3> \"$3\"; cat \"$3\""
        try await convoy(shell: script, url("/a"), url("/b"), path("out"), status: nil, errors: "")
        let told = try await convoy(
            shell: "\"$0\" --no-config -s -o /dev/fd/3 -w '%{http_code}' \"$1\" 3> \"$2\"", url("/a"), path("copy"))
        #expect(told.output == "200", "\(told.errors)")
        #expect(try content("copy") == "hello")
        try await fetch("-o", "/dev/full", url("/a"), status: 1, errors: "/dev/full cannot be written: No space left")
    }

    @Test func anAnswerToAnUploadReplacesNotTheFileThatWasSent() async throws {
        try write("mine", to: "a")
        for option in ["--json", "--quiet"] {
            let script = "cd \"$1\" && \"$0\" --no-config \"$2\" -T a \"$3\""
            try await convoy(shell: script, directory.url.path, option, url("/"))
            #expect(try await server.takeRequest().target == "/a")
            #expect(try content("a") == "mine")
        }
    }

    @Test func theBodyOfAFailedResponseIsSavedWithTheOption() async throws {
        server.respond { _ in .status(404, headerFields: [("Content-Type", "application/json")], body: #"{"why": 1}"#) }
        let printed = try await convoy("--no-config", "--fail-with-body", url("/a"), status: 1)
        #expect(printed.output == #"{"why": 1}"#)
        #expect(printed.errors == "convoy: \(url("/a")): 404 Not Found\n")
        #expect(try await convoy("--no-config", "-s", url("/a"), status: 1).output == "")
        try await convoy("--no-config", "--fail-with-body", "-o", path("x"), url("/a"), status: 1)
        #expect(try content("x") == #"{"why": 1}"#)
        try await convoy("--no-config", "-o", path("y"), url("/a"), status: 1)
        #expect(try directory.names() == ["x"])
    }
}

@Suite struct EndlessFilesRunningTests {
    /// The shell limits the memory of the command, so that a read without a limit fails instead of filling the machine.
    @Test(arguments: [
        (["run", "/dev/zero"], "cannot read /dev/zero: it is larger than 64 MiB"),
        (["-K", "/dev/zero", "http://127.0.0.1:9/"], "--config cannot read /dev/zero: it is larger than 1 MiB"),
    ])
    func aDeviceIsReadUpToALimit(arguments: [String], message: String) async throws {
        let ending = try await convoy(shell: "ulimit -v 4000000; exec \"$0\" \"$@\"", arguments, status: 2)
        #expect(!ending.isSignalled)
        #expect(ending.errors.contains(message), "\(ending.errors)")
    }
}
