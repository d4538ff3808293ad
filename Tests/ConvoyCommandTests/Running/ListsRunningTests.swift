import ConvoyTesting
import Foundation
import Testing

/// Lists that other programs wrote, read by the command.
@Suite struct ListsRunningTests {
    private let directory: TestDirectory
    private let target: URL
    private let server: TestServer
    /// Of the bytes "hello".
    private let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

    init() throws {
        directory = try TestDirectory()
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
        #expect(try await server.takeRequest().value(of: "X-Key") == "v")
        #expect(try await server.takeRequest().value(of: "X-Key") == nil)
    }

    @Test func aListOfDigestsNeedsTheirPlace() async throws {
        let text = "\(digest)  sub/a.bin\n\(digest) *other\n"
        let ending = try await run(text, ["--base", server.url("/files").absoluteString])
        #expect(ending.status == 1)
        #expect(try directory.names(in: "target") == ["a.bin"])
        let lost = try await run(text)
        #expect(lost.status == 1)
        #expect(lost.errors.contains("--base URL"))
        #expect(lost.errors.split(separator: "\n").count == 1)
    }

    @Test func aMetalinkIsRead() async throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="image.iso">
            <hash type="sha-256">\(digest)</hash><url priority="1">\(server.url("/a"))</url></file></metalink>
            """
        #expect(try await run(text).status == 0)
        #expect(try directory.names(in: "target") == ["image.iso"])
    }

    @Test func objectsAreLines() async throws {
        let text = #"{"url": "\#(server.url("/a"))", "name": "b", "headers": {"X-Key": "v"}}"#
        #expect(try await run(text).status == 0)
        #expect(try directory.names(in: "target") == ["b"])
        #expect(try await server.takeRequest().value(of: "X-Key") == "v")
    }

    @Test func aBlankInPlaceOfATabIsExplained() async throws {
        let ending = try await run("\(server.url("/a")) name.txt\n")
        #expect(ending.status == 1)
        #expect(ending.errors.contains("put a tab before the name"))
        #expect(server.requestCount == 0)
    }

    @Test func optionsThatComeByAPipeAreReadToo() async throws {
        let pipe = Pipe()
        let child = try ConvoyProcess(["--no-config", "-P", target.path, "-i", "-"], input: pipe)
        try pipe.fileHandleForWriting.write(contentsOf: Data("\(server.url("/a"))\n out=piped\n".utf8))
        try pipe.fileHandleForWriting.close()
        #expect(try await child.ended().status == 0)
        #expect(try directory.names(in: "target") == ["piped"])
    }

    @Test func anEmptyListIsSaidAndIsNoFailure() async throws {
        let ending = try await run("# nothing yet\n")
        #expect(ending.status == 0)
        #expect(ending.errors.contains("is empty"))
    }
}
