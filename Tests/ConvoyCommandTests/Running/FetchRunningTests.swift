import Foundation
import Testing

@Suite final class FetchRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { request in
            guard let count = request.path.split(separator: "/").last.flatMap({ Int64($0) }) else {
                return .status(404, body: "gone \u{1B}[2J")
            }
            return .generated(byteCount: count)
        }
    }

    @Test func filesAreSavedAndSummedUp() async throws {
        try write("old", to: "1000")
        try await convoy(
            "fetch", "-o", directory.url.path, url("/1000"), url("/x/300000"),
            prints: ["saved 1000  1.0 kB in ", "saved 300000  300.0 kB in ", "2 files, 301.0 kB in "], errors: "")
        #expect(try data("1000") == Reply.pattern(range: 0..<1_000))
        #expect(try data("300000") == Reply.pattern(range: 0..<300_000))
        #expect(try directory.names() == ["1000", "300000"])
    }

    @Test func oneFailureAmongSuccessesIsOneLineAndStatus1() async throws {
        let missing = url("/missing").replacing("http://", with: "http://user:secret@")
        try await convoy(
            "fetch", "-o\(directory.url.path)", url("/10"), missing, status: 1,
            prints: ["1 file, 10 B in ", ", 1 failed", "!secret"],
            errors: ["^convoy: \(url("/missing")): 404 Not Found\n$", "!secret"])
        #expect(try directory.names() == ["10"])
    }

    @Test func anInvalidLineIsReportedWithItsNumberAndTheOthersRun() async throws {
        let list = """
            # a list
            BASE/1\tfirst.bin

            nonsense
            BASE/2\t../../second.bin
            BASE/3\tfirst.bin
            """
        let ending = try await fetch("-i", write(list, to: "list"), status: 1, errors: "^convoy: line 4 of ")
        #expect(ending.errors.split(separator: "\n").count == 1)
        #expect(try directory.names() == ["first-1.bin", "first.bin", "list", "second.bin"])
        #expect(try data("first.bin").count == 1)
        #expect(try data("first-1.bin").count == 3)
    }

    @Test func standardInputIsReadAsItComes() async throws {
        let pipe = Pipe()
        let child = try ConvoyProcess(["fetch", "-i", "-", "-o", directory.url.path], input: pipe)
        try pipe.fileHandleForWriting.write(contentsOf: Data("\(url("/1"))\n".utf8))
        // The first request arrives while the list is still open.
        try await server.requestsReceived(count: 1, within: .seconds(120))
        try pipe.fileHandleForWriting.write(contentsOf: Data("\(url("/2"))".utf8))
        try pipe.fileHandleForWriting.close()
        try await child.ended(status: 0)
        #expect(try directory.names() == ["1", "2"])
    }

    @Test func anUnreachableHostIsNamedWithTheCause() async throws {
        let gone = try TestServer()
        let url = gone.url("/a")
        gone.shutDown()
        let ending = try await fetch("--retries=1", url.absoluteString, status: 1)
        let lines = ending.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("convoy: \(url): the connection was refused; attempt 2 of 2 in ") == true)
        #expect(lines.last?.hasPrefix("convoy: \(url): ") == true)
        #expect(lines.last?.hasSuffix(" (2 attempts)") == true)
        #expect(try directory.names() == [])
    }

    @Test func aMissingDirectoryRunsNothing() async throws {
        for arguments in [["-P", path("none")], ["-o", path("none") + "/"], ["-o", path("none/a")]] {
            try await convoy("fetch", arguments, url("/1"), status: 2, errors: "cannot be used")
        }
        try await convoy("fetch", "-o", path("none"), url("/1"), url("/1"), status: 2, errors: "mkdir -p")
        #expect(server.requestCount == 0)
    }

    @Test func aDirectoryInTheWayFailsOnlyItsFile() async throws {
        _ = try directory.makeDirectory("5")
        try await fetch(url("/5"), url("/6"), status: 1, errors: "/5: ")
        #expect(try directory.names() == ["5", "6"])
    }

    @Test func quietPrintsErrorsOnly() async throws {
        let ending = try await fetch("--quiet", url("/1"), url("/x"), status: 1, prints: "")
        #expect(ending.errors.split(separator: "\n").count == 1)
    }

    @Test func jsonReportsEveryStartAndEnd() async throws {
        let ending = try await fetch(
            "--json", "-i", write("BASE/1000\nBASE/x\nnonsense\n", to: "list"), status: 1, errors: "")
        #expect(ending.events.count == ending.output.split(separator: "\n").count)
        #expect(ending.events(named: "started").contains { $0["url"] as? String == url("/1000") })
        #expect(ending.values("finished", "status", "bytes", "file") == "200 1000 \(path("1000"))")
        #expect(ending.events(named: "finished").first?["seconds"] is Double)
        let failed = ending.events(named: "failed")
        #expect(failed.contains { $0["code"] as? String == "unacceptableStatus" && $0["status"] as? Int == 404 })
        #expect(failed.contains { $0["code"] as? String == "invalidRequest" && $0["line"] as? Int == 3 })
        #expect(ending.steps.last == "summary")
        #expect(ending.values("summary", "succeeded", "failed", "exit_status") == "1 2 1")
    }

    @Test(arguments: [
        ["fetch"], ["fetch", "--nope"], ["nope"], [], ["demo", "x"], ["fetch", "-j", "0", "http://a/"],
        ["completions"], ["completions", "tcsh"], ["completions", "bash", "zsh"], ["completions", "-x"],
    ])
    func usageErrorsExitWith2(arguments: [String]) async throws {
        try await convoy(arguments, status: 2, prints: "", errors: ["^convoy: ", "--help"])
    }

    @Test(arguments: [
        ["--help"], ["fetch", "--help"], ["demo", "--help"], ["completions", "--help"], ["--version"],
    ])
    func helpGoesToStandardOutput(arguments: [String]) async throws {
        let ending = try await convoy(arguments, prints: "convoy", errors: "")
        #expect(ending.output.split(separator: "\n").allSatisfy { $0.count <= 120 })
    }
}

/// Tests the messages of failures: they help a user of the command and name no types of the library.
@Suite final class MessageRunningTests: CommandTests {
    private static let trailer =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nno field\r\n\r\n"

    private static let cases: [(Reply, options: [String], words: String)] = [
        (
            .redirect(to: "ftp://localhost/x"), [],
            "the server redirects (302) to ftp://localhost/x, but only http and https"
        ),
        (.status(302), [], "302 Found; it has no Location"),
        (.redirect(to: "/a"), [], "redirect"), (.status(499), [], "/a: 499\n"),
        (.raw(trailer), ["--retries", "0"], "the response could not be parsed"),
        (.status(200), ["--header", "Proxy-Authorization: a"], "the server could read a Proxy-Authorization field"),
        (.status(200, body: "b"), ["--existing", "fail"], "choose another option with --existing"),
    ]

    @Test(arguments: cases.indices)
    func noMessageNamesAPropertyOfTheLibrary(index: Int) async throws {
        let (reply, options, words) = Self.cases[index]
        try write("old", to: "there")
        server.respond { _ in reply }
        let ending = try await fetch(
            options, url(options.contains("--existing") ? "/there" : "/a"), status: 1, errors: [words])
        // The patterns match properties and methods of the library, and words such as `Policy` and `argument`.
        for pattern in [#"[a-z]\.[a-z]+[A-Z]"#, #"\([a-z_]*:\)"#, #"Policy|Options|saved\(|function|argument"#] {
            #expect(try ending.errors.firstMatch(of: Regex(pattern)) == nil, "\(ending.errors)")
        }
    }
}
