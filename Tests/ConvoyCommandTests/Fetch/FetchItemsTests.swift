import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct FetchItemsTests {
    /// The list of failures contains the items that were not reached, so the next run can download them.
    @Test func itemsThatWereNotReachedKeepTheirNamesAndTheDigest() async throws {
        let digest = FileDigest.sha256(String(repeating: "0f", count: 32))
        let urls = try ["http://h/a", "http://h/b"].map { try #require(URL(string: $0)) }
        var options = FetchOptions()
        (options.urls, options.outputNames, options.digest, options.isFlat) = (urls, ["x", "y"], digest, true)
        let items = FetchItems(options, list: nil, naming: .byURL) { _ in }
        #expect(
            items.rest.entries == [
                ListEntry(url: urls[0], name: "x", digest: digest), ListEntry(url: urls[1], name: "y"),
            ])
        _ = await items.next()
        items.stop()
        #expect(items.rest.entries == [ListEntry(url: urls[1], name: "y")])
    }

    @Test(arguments: [
        ("a/b.txt", "a/b.txt"), ("./a/b.txt", "a/b.txt"), ("../b", "b"), ("/etc/b", "b"), ("a/../b", "b"),
        ("a//b", "b"),
        (".ssh/b", "b"), ("a/b\\c", "c"), ("a/..", "download"), ("a/\u{1B}b", "b"), ("a/\u{301}b", "a/\u{301}b"),
    ])
    func onlySafeDirectoriesOfANameAreKept(name: String, path: String) {
        #expect(FileName.safePath(name) == path)
    }
}

@Suite struct FileNameRegisterTests {
    @Test func sameNamesAreNumberedAndNeverMeet() {
        var register = FileNameRegister()
        let names = ["a.b", "a-1.b", "a.b", "a.b", "a-1.b", "c"].map { register.claim($0) }
        #expect(names == ["a.b", "a-1.b", "a-2.b", "a-3.b", "a-1-1.b", "c"])
    }

    @Test func aHundredThousandEqualNamesTakeLinearTime() {
        var register = FileNameRegister()
        var last = ""
        for _ in 0..<100_000 { last = register.claim("download") }
        #expect(last == "download-99999")
    }
}

@Suite struct FetchPlacesTests {
    @Test func noMoreSlotsAreInUseThanExist() async {
        let (placeCount, takeCount) = (2, 500)
        let places = FetchPlaces(count: placeCount)
        let given = Locked(0)
        let (takes, take) = AsyncStream.makeStream(of: Void.self)
        let taker = Task {
            for taken in 1...takeCount {
                await places.take()
                #expect(taken <= placeCount + given.withLock { $0 })
                take.yield()
            }
            take.finish()
        }
        // The loop frees a slot after each take. A taker that did not wait would exceed the number of free slots.
        for await _ in takes {
            given.withLock { $0 += 1 }
            places.give()
        }
        await taker.value
        #expect(given.withLock { $0 } == takeCount)
    }
}

@Suite struct FetchOutcomeVariablesTests {
    @Test(arguments: WriteOut.variables) func everyVariableHasAValue(variable: String) throws {
        let item = FetchItem(index: 0, url: try #require(URL(string: "http://a/x")), fileName: "x")
        let outcome = FetchOutcome(item: item, result: .failure(RequestError(.timedOut, "late")), attempts: [])
        #expect(outcome.value(of: variable) != nil)
    }
}

@Suite struct KeptPartsTests {
    private let directory: TemporaryDirectory
    private let url: URL

    init() throws {
        directory = try TemporaryDirectory()
        url = try #require(URL(string: "http://127.0.0.1/a"))
    }

    private func write(_ name: String, byteCount: Int) throws {
        try Data(count: byteCount).write(to: directory.url.appending(path: name))
    }

    private func writeRecord(
        _ name: String, totalBytes: Int64 = 100, change: (inout ResumeRecord) -> Void = { _ in }
    ) throws {
        let key = try PreparedRequest(Request<Data>.get(url).core, baseURL: nil).url.downloadKey
        var record = ResumeRecord(
            key: key, validator: .entityTag("\"v1\""), totalBytes: totalBytes, boot: Boot.name)
        change(&record)
        try record.data.write(to: directory.url.appending(path: name))
    }

    private func kept(_ name: String, of url: URL? = nil, usesSegments: Bool = false) -> Int64? {
        PartFinder(directory: directory.url.path, knowsNames: true, usesSegments: usesSegments, started: Date())
            .keptBytes(of: FetchItem(index: 0, url: url ?? self.url, fileName: name))
    }

    /// Bytes that the next run requests again are not counted.
    @Test func bytesThatWillBeFetchedAgainDoNotCount() throws {
        // The part has bytes in two ranges of the record, and in a third that the record does not contain.
        try write(".a.convoy-part", byteCount: 101)
        try writeRecord(".a.convoy-resume") { record in
            (record.ranges, record.syncedRanges) = ([0..<10, 50..<70], [0..<10])
        }
        #expect(kept("a", usesSegments: true) == 30)
        #expect(kept("a") == 10)
        // The record is from before a restart of the system.
        try writeRecord(".a.convoy-resume") { record in
            (record.ranges, record.syncedRanges, record.boot) = ([0..<10, 50..<70], [0..<10], "another")
        }
        #expect(kept("a", usesSegments: true) == 10)
        try write(".b.convoy-part", byteCount: 50)
        try writeRecord(".b.convoy-resume") { ($0.syncedBytes, $0.boot) = (20, "another") }
        #expect(kept("b") == 20)
        // The part does not count if it belongs to another URL, if it has bytes of mirrors and needs a digest, or if it
        // is longer than the complete file.
        #expect(kept("b", of: URL(string: "http://127.0.0.1/b")) == nil)
        try writeRecord(".b.convoy-resume") { $0.needsDigest = true }
        #expect(kept("b") == nil)
        try writeRecord(".b.convoy-resume", totalBytes: 49)
        #expect(kept("b") == nil)
    }
}
