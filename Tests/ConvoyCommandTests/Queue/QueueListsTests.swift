import ConvoyTesting
import Foundation
import Testing

/// Tests the lists of `convoy queue add`.
@Suite struct QueueListsTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func path(_ name: String) -> String { directory.url.appending(path: name).path }

    private func queue(_ verb: String, _ arguments: String...) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(["queue", verb, "--db", path("jobs.db")] + arguments).ended()
    }

    private static let digest = String(repeating: "0", count: 64)
    /// More lines than one transaction has.
    private static let long =
        String(repeating: "http://127.0.0.1:9/a\n", count: 1_200) + "http://127.0.0.1:9/b\thttp://127.0.0.1:9/c\n"
    private static let metalink = """
        <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a"><hash type="sha-256">\(digest)</hash>
        <url>http://127.0.0.1:9/a</url></file></metalink>
        """

    @Test(arguments: [
        ("\(digest)  image.iso\n", ":1", "verify digests"),
        ("\n\(digest) *a\n", ":2", "verify digests"),
        ("http://127.0.0.1:9/a\n# b\nhttp://127.0.0.1:9/b\tb\tsha256:\(digest)\n", ":3", "verify digests"),
        ("http://127.0.0.1:9/a\nhttp://127.0.0.1:9/b\n  checksum=sha-256=\(digest)\n", ":2", "verify digests"),
        (
            "http://127.0.0.1:9/a\n{\"url\":\"http://127.0.0.1:9/b\",\"sha256\":\"\(digest)\"}\n", ":2",
            "verify digests"
        ),
        ("http://127.0.0.1:9/a\nhttp://127.0.0.1:9/b\thttp://127.0.0.1:9/c\n", ":2", "use mirrors"),
        (long, ":1201", "use mirrors"),
        (metalink, "", "verify digests"),
        (
            "<metalink><file name=\"a\"><size>5</size><url>http://127.0.0.1:9/a</url></file></metalink>\n", "",
            "verify sizes"
        ),
    ])
    func aListWithDigestsOrMirrorsIsRefused(list: String, line: String, reason: String) async throws {
        try Data(list.utf8).write(to: directory.url.appending(path: "list"))
        let added = try await queue("add", "-i", path("list"), "--base", "http://127.0.0.1:9/")
        #expect(added.status == 2 && added.output == "", "\(added.errors)")
        #expect(added.errors.hasPrefix("convoy: \(path("list"))\(line): the queue cannot \(reason)"), "\(added.errors)")
        #expect(added.errors.contains("convoy fetch"))
        #expect(try await queue("status").output == "no jobs\n")
    }

    /// The lines of a pipe can be read only once.
    @Test func aDigestOnStandardInputIsRefused() async throws {
        try Data("\(Self.digest)  image.iso\n".utf8).write(to: directory.url.appending(path: "list"))
        let added = try await ConvoyProcess(
            shell: "cat \"$1\" | \"$0\" queue add --db \"$2\" -i - --base http://127.0.0.1:9/",
            [path("list"), path("jobs.db")]
        ).ended()
        #expect(added.status == 2 && added.output == "", "\(added.errors)")
        #expect(added.errors.contains("http://127.0.0.1:9/image.iso: the queue cannot verify digests"))
        #expect(try await queue("status").output == "no jobs\n")
    }

    @Test func directoriesOfAListAreKept() async throws {
        let server = try TestServer()
        server.respond { .status(200, body: $0.path) }
        let list = server.url("/1").absoluteString + "\tx/n1\n" + server.url("/2").absoluteString + "\ty/n1\n"
        try Data(list.utf8).write(to: directory.url.appending(path: "list"))
        _ = try directory.makeDirectory("answers")
        #expect(try await queue("add", "-i", path("list"), "-P", path("answers")).status == 0)
        #expect(try await queue("run", "--quiet").status == 0)
        for (name, body) in [("x/n1", "/1"), ("y/n1", "/2")] {
            let file = directory.url.appending(path: "answers/\(name)")
            #expect((try? Data(contentsOf: file)) == Data(body.utf8), "\(name)")
        }
    }
}
