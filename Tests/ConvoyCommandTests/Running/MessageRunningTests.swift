import ConvoyTesting
import Foundation
import Testing

/// Tests the messages of failures: they help a user of the command and name no types of the library.
@Suite struct MessageRunningTests {
    private static let trailer =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nno field\r\n\r\n"

    private static let cases: [(Reply, options: [String], words: String)] = [
        (
            .redirect(to: "ftp://localhost/x"), [],
            "the server redirects (302) to ftp://localhost/x, but only http and https"
        ),
        (.status(302), [], "302 Found; it has no Location"),
        (.redirect(to: "/a"), [], "redirect"),
        (.raw(trailer), ["--retries", "0"], "the response could not be parsed"),
        (
            .status(200), ["--header", "Proxy-Authorization: a"],
            "the server could read a Proxy-Authorization field"
        ),
        (.status(200, body: "b"), ["--existing", "fail"], "choose another option with --existing"),
    ]

    @Test(arguments: cases.indices)
    func noMessageNamesAPropertyOfTheLibrary(index: Int) async throws {
        let (reply, options, words) = Self.cases[index]
        let (directory, server) = (try TemporaryDirectory(), try TestServer())
        try Data("old".utf8).write(to: directory.url.appending(path: "there"))
        server.respond { _ in reply }
        let path = options.contains("--existing") ? "/there" : "/a"
        let ending = try await ConvoyProcess(
            ["fetch", "-o", directory.url.path] + options + [server.url(path).absoluteString]
        ).ended()
        #expect(ending.status == 1)
        #expect(ending.errors.contains(words), "\(ending.errors)")
        // The patterns match properties and methods of the library, and words such as `Policy` and `argument`.
        for pattern in [#"[a-z]\.[a-z]+[A-Z]"#, #"\([a-z_]*:\)"#, #"Policy|Options|saved\(|function|argument"#] {
            #expect(try ending.errors.firstMatch(of: Regex(pattern)) == nil, "\(ending.errors)")
        }
    }
}
