import Convoy
import Foundation
import Testing

@Suite final class ListsRunningTests: CommandTests {
    /// A server whose files are not those that a list means.
    private let bad: TestServer
    private let digest = PlacesRunningTests.digest

    override init() throws {
        bad = try TestServer()
        try super.init()
        _ = try directory.makeDirectory("target")
        server.respond { .body(Data(($0.path.hasSuffix("other") ? "other" : "hello").utf8)) }
    }

    /// The command with a list, in which `BASE` stands for the server.
    private func fetchList(_ list: String) throws -> Invocation {
        Invocation(["--no-config", "-P", path("target"), "--retries=0", "-i", try write(list, to: "list")])
    }

    private var names: [String] { get throws { try directory.names(in: "target") } }

    /// A list of aria2 or a Metalink with one file `a` at several URLs.
    private func list(isMetalink: Bool, _ urls: [String], isVerified: Bool = true) -> String {
        let hash = isVerified ? "<hash type=\"sha-256\">\(digest)</hash>" : ""
        return isMetalink
            ? "<metalink><file name=\"a\">\(hash)\(urls.map { "<url>\($0)</url>" }.joined())</file></metalink>"
            : urls.joined(separator: "\t") + "\n  out=a" + (isVerified ? "\n  checksum=sha-256=\(digest)" : "")
    }

    private func badURLs(_ paths: [String]) -> [String] { paths.map { bad.url($0).absoluteString } }

    @Test func aria2sInputFileIsRead() async throws {
        let text = """
            BASE/a\thttp://mirror.invalid/a
              out=first.bin
              checksum=sha-256=\(digest)
              header=X-Key: v
              split=5
            # a remark
            BASE/other
              checksum=sha-256=\(digest)
            """
        try await fetchList(text)("-j1", status: 1, errors: "/other: ")
        #expect(try names == ["first.bin"])
        for _ in 0..<2 {
            let request = try await server.takeRequest()
            #expect(request.value(of: "X-Key") == (request.path == "/a" ? "v" : nil))
        }
    }

    /// The command requests the next server if one fails, without credentials.
    @Test(arguments: [false, true], [(true, 1), (false, 1), (true, 2), (false, 2)])
    func eachURLOfAFileIsTriedUntilOneSucceeds(
        isMetalink: Bool, _ run: (isVerified: Bool, segmentCount: Int)
    ) async throws {
        bad.respond { $0.path == "/2" ? .status(503) : .status(404) }
        let paths = (1...15).map { "/\($0)" }
        let text = list(isMetalink: isMetalink, badURLs(paths) + [url("/c")], isVerified: run.isVerified)
        try await fetchList(text)("-u", "me:secret", "-b", "a=b", "-H", "X-Key: v", "--segments=\(run.segmentCount)")
        #expect(try content("target/a") == "hello")
        if run.segmentCount == 1 { #expect(bad.recordedRequests.map(\.path) == paths) }
        #expect(try await bad.takeRequest().value(of: "X-Key") == "v")
        let request = try await server.takeRequest()
        for name in ["Authorization", "Cookie", "X-Key"] { #expect(request.value(of: name) == nil) }
    }

    /// The files of two servers have another digest; each server is requested once.
    @Test(arguments: [false, true], ["--segments=1", "--segments=2"])
    func theNextURLOfAFileIsUsedIfItsDigestIsWrong(isMetalink: Bool, option: String) async throws {
        bad.respond { .body(Data($0.path.utf8)) }
        try await fetchList(list(isMetalink: isMetalink, badURLs(["/a", "/b"]) + [url("/c")]))(option)
        #expect(try content("target/a") == "hello")
        if option == "--segments=1" { #expect(bad.requestCount == 2 && server.requestCount == 1) }
    }

    @Test(arguments: ["--segments=1", "--segments=2"])
    func ifEachFileHasAWrongDigestTheFirstIsReported(option: String) async throws {
        bad.respond { $0.path == "/c" ? .status(404) : .body(Data($0.path.utf8)) }
        let text = list(isMetalink: false, badURLs(["/a", "/b", "/c"]))
        let ending = try await fetchList(text)("--retries=2", "--json", option, status: 1)
        let failed = try #require(ending.events(named: "failed").first)
        #expect(failed["code"] as? String == "integrityFailed")
        // The digest of "/a".
        let wrong = "6a50dc8584134c7de537c0052ff6d236bf874355e050c90523e0c5ff2a543a28"
        #expect((failed["message"] as? String)?.contains(wrong) == true, "\(failed)")
        if option == "--segments=1" { #expect(bad.recordedRequests.map(\.path) == ["/a", "/b", "/c"]) }
        #expect(try names == [])
    }

    @Test func wrongBytesOfAnEarlierRunAreFetchedAgainFromTheSameServer() async throws {
        server.respond { _ in .status(503) }
        bad.enqueue(.raw("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\nContent-Length: 5\r\n\r\nwro"))
        bad.respond { _ in .resource(Data("hello".utf8), etag: "\"v1\"") }
        let text = list(isMetalink: false, badURLs(["/a"]) + [url("/a")])
        try await fetchList(text)(status: 1)
        let count = server.requestCount
        try await fetchList(text)()
        #expect(server.requestCount == count)
        #expect(bad.recordedRequests.map { $0.value(of: "Range") } == [nil, "bytes=3-", nil])
    }

    /// Only a redirect that can be followed is one.
    @Test(
        arguments: [
            (300, nil), (302, nil), (302, "http://["), (304, nil), (305, "/b"), (407, nil),
        ] as [(Int, String?)])
    func theNextURLOfAFileIsUsedAfterAnAnswerThatLeadsNowhere(status: Int, location: String?) async throws {
        bad.respond { _ in .status(status, headerFields: location.map { [("Location", $0)] } ?? []) }
        try await fetchList("\(bad.url("/a"))\tBASE/c\n  out=a\n")()
        #expect(try content("target/a") == "hello")
        #expect(bad.requestCount == 1)
    }

    @Test func aRedirectOfTheFirstURLIsFollowed() async throws {
        let mirror = try TestServer()
        bad.respond { [server] _ in .status(302, headerFields: [("Location", "\(server.url("/c"))")]) }
        try await fetchList("\(bad.url("/a"))\t\(mirror.url("/a"))\n  out=a\n")()
        #expect(try content("target/a") == "hello")
        #expect(mirror.requestCount == 0)
    }

    @Test func whereAllURLsOfAFileFailItIsTriedAgain() async throws {
        server.enqueue([Reply](repeating: .status(503), count: 3))
        try await fetchList("BASE/0\tBASE/1\tBASE/2\n")("--retries=1")
        #expect(server.recordedRequests.map(\.path) == ["/0", "/1", "/2", "/0"])
        server.respond { _ in .status(503) }
        try await fetchList("BASE/0\tBASE/1\tBASE/2\n")(status: 1)
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
        let text = "\u{FEFF}" + list.replacing("URL/", with: url("/")).replacing("DIGEST", with: digest)
        try #require(text.data(using: encoding)).write(to: directory.file("utf16"))
        try await convoy("--no-config", "-P", path("target"), "-i", path("utf16"), "--base", url("/"))
        #expect(try names.sorted() == ["b", "ä😀"])
    }

    /// The file has five bytes.
    @Test(arguments: [(5, "--segments=1"), (6, "--segments=1"), (4, "--segments=1"), (6, "--segments=2")])
    func theSizeInAMetalinkIsChecked(size: Int, option: String) async throws {
        let file = "<file name=\"a.bin\"><size>\(size)</size><url>BASE/a</url></file>"
        let ending = try await fetchList("<metalink>\(file)</metalink>")(option, status: size == 5 ? 0 : 1)
        #expect(try names == (size == 5 ? ["a.bin"] : []))
        if size != 5 { #expect(ending.errors.contains("has 5 bytes instead of \(size)"), "\(ending.errors)") }
    }

    @Test func aServerWhoseFileHasAnotherSizeIsFollowedByTheNext() async throws {
        bad.respond { _ in .body(Data("longer".utf8)) }
        let urls = [bad.url("/a").absoluteString, url("/a")].map { "<url>\($0)</url>" }.joined()
        try await fetchList("<metalink><file name=\"a\"><size>5</size>\(urls)</file></metalink>")()
        #expect(try content("target/a") == "hello")
    }

    @Test func aMetalinkMayBeOneLongLine() async throws {
        let files = (0..<1_000).map {
            "<file name=\"\($0).bin\"><description>a long word</description><url>\(url("/a"))</url></file>"
        }
        let text = "<metalink>\(files.joined())</metalink>"
        #expect(text.utf8.count > 64 << 10)
        try await fetchList(text)()
        #expect(try names.count == 1_000)
    }
}
