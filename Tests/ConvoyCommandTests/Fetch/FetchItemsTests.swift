import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FetchItemsTests {
    private let directory: TemporaryDirectory
    private let digest = FileDigest.sha256(String(repeating: "0f", count: 32))

    init() throws { directory = try TemporaryDirectory() }

    /// Two URLs, and the digest of the first.
    private func options() throws -> FetchOptions {
        var options = FetchOptions()
        options.urls = try ["http://h/a", "http://h/b"].map { try #require(URL(string: $0)) }
        (options.digest, options.isFlat) = (digest, true)
        return options
    }

    private func items(_ naming: FileNaming) async throws -> [FetchItem] {
        let list = directory.url.appending(path: "list")
        let lines = ["http://h/x/a", "http://h/c\ta", "http://h/d\t\t\(digest)", "http://h/e\tb\t\(digest)"]
        try Data(lines.joined(separator: "\n").utf8).write(to: list)
        let items = FetchItems(try options(), list: try LineReader.open(list.path), naming: naming) { defect in
            Issue.record("\(defect)")
        }
        var all: [FetchItem] = []
        while let item = await items.next() { all.append(item) }
        #expect(all.map(\.index) == Array(0..<6))
        return all
    }

    @Test func namesAreUniqueWhereTheURLGivesThem() async throws {
        let items = try await items(.byURL)
        #expect(items.map(\.fileName) == ["a", "b", "a-1", "a-2", "d", "b-1"])
        #expect(items.map(\.isNamed) == [false, false, false, true, false, true])
    }

    /// The list of failures contains the items that were not reached, so the next run can download them.
    @Test func itemsThatWereNotReachedKeepTheirNamesAndTheDigest() async throws {
        var options = try options()
        options.outputNames = ["x", "y"]
        let urls = options.urls
        let items = FetchItems(options, list: nil, naming: .byURL) { _ in }
        #expect(
            items.rest.entries == [
                ListEntry(url: urls[0], name: "x", digest: digest), ListEntry(url: urls[1], name: "y"),
            ])
        _ = await items.next()
        items.stop()
        #expect(items.rest.entries == [ListEntry(url: urls[1], name: "y")])
    }

    @Test func whereTheServerGivesNamesOnlyNamesOfTheListAreFixed() async throws {
        let items = try await items(.byServer)
        #expect(items.map(\.fileName) == ["a", "b", "a", "a", "d", "b"])
        #expect(items.map(\.isNamed) == [false, false, false, true, false, true])
    }

    @Test(arguments: [
        ("a/b.txt", "a/b.txt"), ("./a/b.txt", "a/b.txt"), ("../b", "b"), ("/etc/b", "b"), ("a/../b", "b"),
        ("a//b", "b"),
        (".ssh/b", "b"), ("a/b\\c", "c"), ("a/..", "download"), ("a/\u{1B}b", "b"), ("a/\u{301}b", "a/\u{301}b"),
    ])
    func onlySafeDirectoriesOfANameAreKept(name: String, path: String) {
        #expect(FileName.safePath(name) == path)
    }

    @Test func aNumberIsAddedToTheNameNotToTheDirectory() {
        var names = FileNameRegister()
        #expect(
            ["v1.2/a", "v1.2/a", "x/b.txt", "x/b.txt"].map { names.claim($0) } == [
                "v1.2/a", "v1.2/a-1", "x/b.txt", "x/b-1.txt",
            ])
    }

    @Test func withoutFilesNoItemIsNamed() async throws {
        #expect(try await items(.none).allSatisfy { !$0.isNamed })
    }

    @Test func theDigestOfTheCommandLineIsThatOfItsFirstURL() async throws {
        let items = try await items(.byURL)
        #expect(items.map { $0.digest != nil } == [true, false, false, false, true, true])
        #expect(items.allSatisfy { $0.digest == nil || $0.digest == digest })
    }
}
