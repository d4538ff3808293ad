import Foundation
import Testing

/// Tests that the disk model promises no more than a disk.
@Suite struct DiskModelTests {
    private func contents(_ changes: [DiskChange], after cut: DiskModel.Cut, seed: UInt64 = 1) -> [String: Data] {
        var (disk, random) = (DiskModel(), SeededGenerator(seed: seed))
        for change in changes { disk.apply(change) }
        return disk.contents(after: cut, &random).files
    }

    private let one = Data(repeating: 1, count: 2_000)
    private let two = Data(repeating: 2, count: 2_000)

    /// A file with a synchronized name and synchronized bytes.
    private var whole: [DiskChange] {
        [.create("a", file: 7), .write(file: 7, offset: 0, one), .sync(file: 7), .syncDirectory("")]
    }

    @Test func onlySynchronizedChangesSurvive() {
        #expect(DiskModel.Cut.allCases.allSatisfy { contents(whole, after: $0) == ["a": one] })
        #expect(contents(whole.dropLast(), after: .dropped) == [:])
        #expect(contents(whole.dropLast(), after: .kept) == ["a": one])
        var changes = whole + [.rename("a", to: "b")]
        #expect(contents(changes, after: .dropped) == ["a": one])
        #expect(contents(changes, after: .kept) == ["b": one])
        changes += [.syncDirectory(""), .unlink("b")]
        #expect(contents(changes, after: .dropped) == ["b": one])
        #expect(contents(changes, after: .kept) == [:])
        // The files of a lost directory are lost.
        let inside: [DiskChange] = [.makeDirectory("d"), .create("d/a", file: 7), .syncDirectory("d")]
        #expect(contents(inside, after: .dropped) == [:])
        #expect(contents(inside + [.syncDirectory("")], after: .dropped) == ["d/a": Data()])
        // A number that is used again is another file.
        changes = whole + [.unlink("a"), .create("b", file: 7), .write(file: 7, offset: 0, two), .sync(file: 7)]
        #expect(contents(changes, after: .dropped) == ["a": one])
        #expect(contents(changes, after: .kept) == ["b": two])
    }

    /// Each sector is either old or new, and at its position.
    @Test func aTornWriteIsTornBetweenSectors() {
        let changes = whole + [.write(file: 7, offset: 100, two.prefix(1_000))]
        let found = Set((1...200).compactMap { contents(changes, after: .torn, seed: $0)["a"] })
        for file in found {
            for range in [100..<512, 512..<1_024, 1_024..<1_100] { #expect(Set(file[range]).count == 1) }
            #expect(file[..<100].allSatisfy { $0 == 1 } && file[1_100...].allSatisfy { $0 == 1 })
        }
        #expect(found.count == 8)
    }

    @Test func aRecordIsReadUpToItsLastWholeEntry() {
        var record = Data()
        for (kind, text) in [("C", "a"), ("W", "bytes"), ("R", "a\0b"), ("A", "job-1\n")] {
            record += Data(kind.utf8) + Data([7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])
            record += Data([UInt8(text.utf8.count), 0, 0, 0]) + Data(text.utf8)
        }
        let all: [DiskChange] = [
            .create("a", file: 7), .write(file: 7, offset: 3, Data("bytes".utf8)), .rename("a", to: "b"),
            .said("job-1\n"),
        ]
        #expect(DiskChange.all(in: record) == all)
        #expect(DiskChange.all(in: record.dropLast()) == all.dropLast())
    }
}
