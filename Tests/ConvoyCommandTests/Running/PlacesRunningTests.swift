import ConvoyTesting
import Foundation
import Testing

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

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/sha256sum")))
    func filesOfAListOfDigestsCanBeVerifiedWithIt() async throws {
        let list = "\(Self.digest)  one/a.bin\n\(Self.digest)  two/a.bin\n"
        try Data(list.utf8).write(to: directory.url.appending(path: "SUMS"))
        let script = "cd \"$1\" && \"$0\" --no-config -i SUMS --base \"$2\" > told && sha256sum -c SUMS"
        let ending = try await ConvoyProcess(shell: script, [directory.url.path, server.url("/").absoluteString])
            .ended()
        #expect(ending.output == "one/a.bin: OK\ntwo/a.bin: OK\n")
        #expect(try text("told").contains("saved one/a.bin  "))
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
