import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

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

    private func finder(
        knowsNames: Bool = true, usesSegments: Bool = false, started: Date = Date()
    ) -> PartFinder {
        PartFinder(directory: directory.url.path, knowsNames: knowsNames, usesSegments: usesSegments, started: started)
    }

    private func kept(_ name: String, of url: URL? = nil, usesSegments: Bool = false) -> Int64? {
        finder(usesSegments: usesSegments).keptBytes(of: FetchItem(index: 0, url: url ?? self.url, fileName: name))
    }

    @Test func aPartCountsWithItsRecordOnly() throws {
        #expect(kept("a") == nil)
        try write(".a.convoy-part", byteCount: 5)
        #expect(kept("a") == nil)
        try writeRecord(".a.convoy-resume")
        #expect(kept("a") == 5)
        try write(".b.convoy-part", byteCount: 0)
        try writeRecord(".b.convoy-resume")
        #expect(kept("b") == nil)
        try write(".c.convoy-part", byteCount: 5)
        try write(".c.convoy-resume", byteCount: 5)
        #expect(kept("c") == nil)
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

    /// With `--existing rename`, the part belongs to the first name that was free.
    @Test func partOfANumberedNameCounts() throws {
        func kept(of url: URL? = nil) -> Int64? {
            var finder = finder(knowsNames: false)
            finder.numbersNames = true
            return finder.keptBytes(of: FetchItem(index: 0, url: url ?? self.url, fileName: "a.txt"))
        }
        #expect(kept() == nil)
        try write("a.txt", byteCount: 1)
        try write(".a-1.txt.convoy-part", byteCount: 9)
        #expect(kept() == nil)
        try write(".a-2.txt.convoy-part", byteCount: 5)
        try writeRecord(".a-2.txt.convoy-resume")
        #expect(kept() == 5)
        #expect(kept(of: URL(string: "http://127.0.0.1/b")) == nil)
    }

    @Test func shortenedNamesAreFoundToo() throws {
        let name = String(repeating: "n", count: 220)
        let stem = "." + String(repeating: "n", count: 160) + "~bc0edcf21a9e4b8b"
        try write(stem + ".convoy-part", byteCount: 7)
        try writeRecord(stem + ".convoy-resume")
        #expect(kept(name) == 7)
        #expect(kept(String(repeating: "m", count: 220)) == nil)
    }

    @Test func whereNamesAreNotKnownThoseOfThisRunCount() throws {
        for name in ["one", "two"] {
            try write(".\(name).convoy-part", byteCount: 3)
            try writeRecord(".\(name).convoy-resume")
        }
        try write(".three.convoy-part", byteCount: 3)
        #expect(finder(knowsNames: false).allOfThisRun() == KeptParts(count: 2, bytes: 6))
        let later = finder(knowsNames: false, started: Date(timeIntervalSinceNow: 3_600))
        #expect(later.allOfThisRun() == KeptParts())
        #expect(finder(knowsNames: false).keptBytes(of: FetchItem(index: 0, url: url, fileName: "one")) == nil)
    }
}
