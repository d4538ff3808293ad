import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct KeptPartsTests {
    private let directory: TestDirectory
    private let url = URL(filePath: "/")

    init() throws { directory = try TestDirectory() }

    private func write(_ name: String, byteCount: Int) throws {
        try Data(count: byteCount).write(to: directory.url.appending(path: name))
    }

    private func finder(knowsNames: Bool = true, started: Date = Date()) -> PartFinder {
        PartFinder(directory: directory.url.path, knowsNames: knowsNames, started: started)
    }

    private func kept(_ name: String) -> Int64? {
        finder().keptBytes(of: FetchItem(index: 0, url: url, fileName: name))
    }

    @Test func aPartCountsWithItsRecordOnly() throws {
        #expect(kept("a") == nil)
        try write(".a.convoy-part", byteCount: 5)
        #expect(kept("a") == nil)
        try write(".a.convoy-resume", byteCount: 1)
        #expect(kept("a") == 5)
        try write(".b.convoy-part", byteCount: 0)
        try write(".b.convoy-resume", byteCount: 1)
        #expect(kept("b") == nil)
    }

    @Test func shortenedNamesAreFoundToo() throws {
        let name = String(repeating: "n", count: 220)
        let stem = "." + String(repeating: "n", count: 160) + "~bc0edcf21a9e4b8b"
        try write(stem + ".convoy-part", byteCount: 7)
        try write(stem + ".convoy-resume", byteCount: 1)
        #expect(kept(name) == 7)
        #expect(kept(String(repeating: "m", count: 220)) == nil)
    }

    @Test func whereNamesAreNotKnownThoseOfThisRunCount() throws {
        for name in ["one", "two"] {
            try write(".\(name).convoy-part", byteCount: 3)
            try write(".\(name).convoy-resume", byteCount: 1)
        }
        try write(".three.convoy-part", byteCount: 3)
        #expect(finder(knowsNames: false).allOfThisRun() == KeptParts(count: 2, bytes: 6))
        let later = finder(knowsNames: false, started: Date(timeIntervalSinceNow: 3_600))
        #expect(later.allOfThisRun() == KeptParts())
        #expect(finder(knowsNames: false).keptBytes(of: FetchItem(index: 0, url: url, fileName: "one")) == nil)
    }
}
