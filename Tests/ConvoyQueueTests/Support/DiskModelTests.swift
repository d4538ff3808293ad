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

    @Test(arguments: DiskModel.Cut.allCases)
    func synchronizedBytesSurvive(cut: DiskModel.Cut) {
        let changes: [DiskChange] = [
            .create("a", file: 7), .write(file: 7, offset: 0, one), .sync(file: 7), .syncDirectory(""),
        ]
        #expect(contents(changes, after: cut) == ["a": one])
    }

    @Test func aNameSurvivesOnceItsDirectoryIsSynchronized() {
        var changes: [DiskChange] = [.create("a", file: 7), .write(file: 7, offset: 0, one), .sync(file: 7)]
        #expect(contents(changes, after: .dropped) == [:])
        #expect(contents(changes, after: .kept) == ["a": one])
        changes += [.syncDirectory(""), .rename("a", to: "b")]
        #expect(contents(changes, after: .dropped) == ["a": one])
        #expect(contents(changes, after: .kept) == ["b": one])
        changes += [.syncDirectory(""), .unlink("b")]
        #expect(contents(changes, after: .dropped) == ["b": one])
        #expect(contents(changes, after: .kept) == [:])
    }

    @Test func filesOfALostDirectoryAreLost() {
        var changes: [DiskChange] = [.makeDirectory("d"), .create("d/a", file: 7), .syncDirectory("d")]
        #expect(contents(changes, after: .dropped) == [:])
        changes.append(.syncDirectory(""))
        #expect(contents(changes, after: .dropped) == ["d/a": Data()])
    }

    @Test func aNumberThatIsUsedAgainIsAnotherFile() {
        let changes: [DiskChange] = [
            .create("a", file: 7), .write(file: 7, offset: 0, one), .sync(file: 7), .syncDirectory(""), .unlink("a"),
            .create("b", file: 7), .write(file: 7, offset: 0, two), .sync(file: 7),
        ]
        #expect(contents(changes, after: .dropped) == ["a": one])
        #expect(contents(changes, after: .kept) == ["b": two])
    }

    /// Each sector is either old or new, and at its position.
    @Test func aTornWriteIsTornBetweenSectors() {
        var changes: [DiskChange] = [
            .create("a", file: 7), .write(file: 7, offset: 0, one), .sync(file: 7), .syncDirectory(""),
        ]
        changes.append(.write(file: 7, offset: 100, two.prefix(1_000)))
        var found: Set<Data> = []
        for seed in 1...200 as ClosedRange<UInt64> {
            guard let file = contents(changes, after: .torn, seed: seed)["a"] else { continue }
            found.insert(file)
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
        let whole: [DiskChange] = [
            .create("a", file: 7), .write(file: 7, offset: 3, Data("bytes".utf8)), .rename("a", to: "b"),
            .said("job-1\n"),
        ]
        #expect(DiskChange.all(in: record) == whole)
        #expect(DiskChange.all(in: record.dropLast()) == whole.dropLast())
    }
}
