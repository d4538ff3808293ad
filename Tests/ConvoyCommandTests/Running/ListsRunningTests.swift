import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

/// Fetches lists that other programs wrote.
@Suite struct ListsRunningTests {
    private let directory: TemporaryDirectory
    private let target: URL
    private let server: TestServer
    /// The SHA-256 digest of the bytes "hello".
    private let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

    init() throws {
        directory = try TemporaryDirectory()
        target = try directory.makeDirectory("target")
        server = try TestServer()
        server.respond { request in
            request.path.hasSuffix("other") ? .body(Data("other".utf8)) : .body(Data("hello".utf8))
        }
    }

    private func run(_ list: String, _ options: [String] = []) async throws -> ConvoyProcess.Ending {
        let file = directory.url.appending(path: "list")
        try Data(list.utf8).write(to: file)
        return try await ConvoyProcess(["--no-config", "-P", target.path, "-i", file.path] + options).ended()
    }

    @Test func aria2sInputFileIsRead() async throws {
        let text = """
            \(server.url("/a"))\thttp://mirror.invalid/a
              out=first.bin
              checksum=sha-256=\(digest)
              header=X-Key: v
              split=5
            # a remark
            \(server.url("/other"))
              checksum=sha-256=\(digest)
            """
        let ending = try await run(text, ["-j1"])
        #expect(ending.status == 1)
        #expect(ending.errors.contains("/other: "))
        #expect(try directory.names(in: "target") == ["first.bin"])
        for _ in 0..<2 {
            let request = try await server.takeRequest()
            #expect(request.value(of: "X-Key") == (request.path == "/a" ? "v" : nil))
        }
    }

    /// The first server fails.
    ///
    /// For aria2's list and a Metalink the command then requests the next server, without credentials.
    @Test(arguments: [false, true], [(true, []), (false, []), (true, ["--segments=2"]), (false, ["--segments=2"])])
    func theNextURLOfAFileIsUsedIfOneFails(
        isMetalink: Bool, _ run: (isVerified: Bool, options: [String])
    ) async throws {
        let (isVerified, options) = run
        let bad = try TestServer()
        bad.respond { _ in .status(503) }
        let urls = [bad.url("/a"), bad.url("/b"), server.url("/c")].map(\.absoluteString)
        let checksum = isVerified ? "\n  checksum=sha-256=\(digest)" : ""
        let hash = isVerified ? "<hash type=\"sha-256\">\(digest)</hash>" : ""
        let text =
            isMetalink
            ? "<metalink><file name=\"first.bin\">\(hash)\(urls.map { "<url>\($0)</url>" }.joined())</file></metalink>"
            : "\(urls.joined(separator: "\t"))\n  out=first.bin\(checksum)"
        let ending = try await self.run(
            text, ["--retries=0", "-u", "me:secret", "-b", "a=b", "-H", "X-Key: v"] + options)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "first.bin"), encoding: .utf8) == "hello")
        #expect(try await bad.takeRequest().value(of: "X-Key") == "v")
        #expect(bad.requestCount >= 2)
        let request = try await server.takeRequest()
        for name in ["Authorization", "Cookie", "X-Key"] { #expect(request.value(of: name) == nil) }
    }

    /// The files of two servers have another digest; each server is requested once.
    @Test(arguments: [false, true], [[], ["--segments=2"]])
    func theNextURLOfAFileIsUsedIfItsDigestIsWrong(isMetalink: Bool, options: [String]) async throws {
        let bad = try TestServer()
        bad.respond { .body(Data($0.path.utf8)) }
        let urls = [bad.url("/a"), bad.url("/b"), server.url("/c")].map(\.absoluteString)
        let text =
            isMetalink
            ? "<metalink><file name=\"first.bin\"><hash type=\"sha-256\">\(digest)</hash>"
                + "\(urls.map { "<url>\($0)</url>" }.joined())</file></metalink>"
            : "\(urls.joined(separator: "\t"))\n  out=first.bin\n  checksum=sha-256=\(digest)"
        let ending = try await run(text, ["--retries=0"] + options)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "first.bin"), encoding: .utf8) == "hello")
        if options.isEmpty { #expect(bad.requestCount == 2 && server.requestCount == 1) }
    }

    @Test(arguments: [[], ["--segments=2"]]) func ifEachFileHasAWrongDigestTheFirstIsReported(options: [String])
        async throws
    {
        let bad = try TestServer()
        bad.respond { $0.path == "/c" ? .status(404) : .body(Data($0.path.utf8)) }
        let urls = ["/a", "/b", "/c"].map { bad.url($0).absoluteString }.joined(separator: "\t")
        let ending = try await run("\(urls)\n  checksum=sha-256=\(digest)", ["--retries=2", "--json"] + options)
        #expect(ending.status == 1)
        let failed = try #require(ending.events(named: "failed").first)
        #expect(failed["code"] as? String == "integrityFailed")
        // The digest of "/a".
        let wrong = "6a50dc8584134c7de537c0052ff6d236bf874355e050c90523e0c5ff2a543a28"
        #expect((failed["message"] as? String)?.contains(wrong) == true, "\(failed)")
        if options.isEmpty { #expect(bad.recordedRequests.map(\.path) == ["/a", "/b", "/c"]) }
        #expect(try directory.names(in: "target") == [])
    }

    @Test func wrongBytesOfAnEarlierRunAreFetchedAgainFromTheSameServer() async throws {
        let other = try TestServer()
        other.respond { _ in .status(503) }
        let file = try TestServer()
        file.enqueue(.raw("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\nContent-Length: 5\r\n\r\nwro"))
        file.respond { _ in .resource(Data("hello".utf8), etag: "\"v1\"") }
        let text = "\(file.url("/a"))\t\(other.url("/a"))\n  out=a\n  checksum=sha-256=\(digest)"
        #expect(try await run(text, ["--retries=0"]).status == 1)
        let count = other.requestCount
        let ending = try await run(text, ["--retries=0"])
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(other.requestCount == count)
        #expect(file.recordedRequests.map { $0.value(of: "Range") } == [nil, "bytes=3-", nil])
    }

    @Test(arguments: [false, true], [(true, []), (false, []), (true, ["--segments=2"]), (false, ["--segments=2"])])
    func eachOfManyURLsOfAFileIsTried(isMetalink: Bool, _ run: (isVerified: Bool, options: [String])) async throws {
        let bad = try TestServer()
        bad.respond { _ in .status(404) }
        let urls = (1...15).map { bad.url("/\($0)").absoluteString } + [server.url("/c").absoluteString]
        let checksum = run.isVerified ? "\n  checksum=sha-256=\(digest)" : ""
        let hash = run.isVerified ? "<hash type=\"sha-256\">\(digest)</hash>" : ""
        let text =
            isMetalink
            ? "<metalink><file name=\"a\">\(hash)\(urls.map { "<url>\($0)</url>" }.joined())</file></metalink>"
            : "\(urls.joined(separator: "\t"))\n  out=a\(checksum)"
        let ending = try await self.run(text, ["--retries=0"] + run.options)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "a"), encoding: .utf8) == "hello")
        if run.options.isEmpty { #expect(bad.recordedRequests.map(\.path) == (1...15).map { "/\($0)" }) }
    }

    /// Only a redirect that can be followed is one.
    @Test(
        arguments: [
            (300, nil), (302, nil), (302, "http://["), (304, nil), (305, "/b"), (407, nil),
        ] as [(Int, String?)])
    func theNextURLOfAFileIsUsedAfterAnAnswerThatLeadsNowhere(status: Int, location: String?) async throws {
        let bad = try TestServer()
        bad.respond { _ in .status(status, headerFields: location.map { [("Location", $0)] } ?? []) }
        let ending = try await run("\(bad.url("/a"))\t\(server.url("/c"))\n  out=a\n", ["--retries=0"])
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "a"), encoding: .utf8) == "hello")
        #expect(bad.requestCount == 1)
    }

    @Test func aRedirectOfTheFirstURLIsFollowed() async throws {
        let (first, mirror) = (try TestServer(), try TestServer())
        first.respond { [server] _ in .status(302, headerFields: [("Location", "\(server.url("/c"))")]) }
        let ending = try await run("\(first.url("/a"))\t\(mirror.url("/a"))\n  out=a\n", ["--retries=0"])
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "a"), encoding: .utf8) == "hello")
        #expect(mirror.requestCount == 0)
    }

    @Test func whereAllURLsOfAFileFailItIsTriedAgain() async throws {
        let count = Locked(0)
        server.respond { _ in
            count.withLock {
                $0 += 1
                return $0 < 4 ? .status(503) : .body(Data("hello".utf8))
            }
        }
        let urls = (0..<3).map { server.url("/\($0)").absoluteString }.joined(separator: "\t")
        let ending = try await run(urls + "\n", ["--retries=1"])
        #expect(ending.status == 0, "\(ending.errors)")
        var paths: [String] = []
        for _ in 0..<4 { paths.append(try await server.takeRequest().path) }
        #expect(paths == ["/0", "/1", "/2", "/0"])
        count.withLock { $0 = -100 }
        let failing = try await run(urls + "\n", ["--retries=0"])
        #expect(failing.status == 1)
    }

    @Test(arguments: ["%@ other", "\\%@  other", "SHA2-256(other)= %@"])
    func aFileWithAnotherDigestFailsInEveryForm(line: String) async throws {
        let ending = try await run(
            line.replacing("%@", with: digest) + "\n", ["--base", server.url("/").absoluteString])
        #expect(ending.status == 1)
        #expect(server.recordedRequests.map(\.path) == ["/other"])
        #expect(try directory.names(in: "target") == [])
    }

    @Test(
        arguments: [String.Encoding.utf16LittleEndian, .utf16BigEndian],
        [
            "URL/a\tä😀\r\nURL/b\r\n", "URL/a\n  out=ä😀\nURL/b",
            "{\"url\": \"URL/a\", \"name\": \"ä😀\"}\n{\"url\": \"URL/b\"}",
            "DIGEST  ä😀\r\nDIGEST  b\r\n",
            "<?xml version=\"1.0\" encoding=\"UTF-16\"?><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">"
                + "<file name=\"ä😀\"><url>URL/a</url></file><file name=\"b\"><url>URL/b</url></file></metalink>",
        ])
    func aListMayBeUTF16(encoding: String.Encoding, list: String) async throws {
        let file = directory.url.appending(path: "utf16")
        let base = server.url("/").absoluteString
        let text = "\u{FEFF}" + list.replacing("URL/", with: base).replacing("DIGEST", with: digest)
        try #require(text.data(using: encoding)).write(to: file)
        let ending = try await ConvoyProcess(
            ["--no-config", "-P", target.path, "-i", file.path, "--base", base]
        ).ended()
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try directory.names(in: "target").sorted() == ["b", "ä😀"])
    }

    /// The file has five bytes.
    @Test(arguments: [(5, []), (6, []), (4, []), (6, ["--segments=2"])])
    func theSizeInAMetalinkIsChecked(size: Int, options: [String]) async throws {
        let text =
            "<metalink><file name=\"a.bin\"><size>\(size)</size><url>\(server.url("/a"))</url></file></metalink>"
        let ending = try await run(text, ["--retries=0"] + options)
        #expect(ending.status == (size == 5 ? 0 : 1))
        #expect(try directory.names(in: "target") == (size == 5 ? ["a.bin"] : []))
        if size != 5 { #expect(ending.errors.contains("has 5 bytes instead of \(size)"), "\(ending.errors)") }
    }

    @Test func aServerWhoseFileHasAnotherSizeIsFollowedByTheNext() async throws {
        let bad = try TestServer()
        bad.respond { _ in .body(Data("longer".utf8)) }
        let urls = [bad.url("/a"), server.url("/a")].map { "<url>\($0)</url>" }.joined()
        let ending = try await run(
            "<metalink><file name=\"a.bin\"><size>5</size>\(urls)</file></metalink>", ["--retries=0"])
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try String(contentsOf: target.appending(path: "a.bin"), encoding: .utf8) == "hello")
    }

    @Test func aMetalinkMayBeOneLongLine() async throws {
        let files = (0..<1_000).map {
            "<file name=\"\($0).bin\"><description>a long word</description><url>\(server.url("/a"))</url></file>"
        }
        let text = "<metalink>\(files.joined())</metalink>"
        #expect(text.utf8.count > 64 << 10)
        let ending = try await run(text)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try directory.names(in: "target").count == 1_000)
    }

    @Test func optionsThatComeByAPipeAreReadToo() async throws {
        let pipe = Pipe()
        let child = try ConvoyProcess(["--no-config", "-P", target.path, "-i", "-"], input: pipe)
        try pipe.fileHandleForWriting.write(contentsOf: Data("\(server.url("/a"))\n out=piped\n".utf8))
        try pipe.fileHandleForWriting.close()
        #expect(try await child.ended().status == 0)
        #expect(try directory.names(in: "target") == ["piped"])
    }
}
