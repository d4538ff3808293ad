import Testing

@testable import Convoy

@Suite struct BroadcastTests {
    private func all(_ reader: BroadcastReader<Int>) async -> [Int] {
        var values: [Int] = []
        while let value = await reader.next() { values.append(value) }
        return values
    }

    /// The last value and the end are one step for whoever comes in the middle of them.
    @Test func aReaderThatComesWhileTheEndIsToldGetsTheLastValue() async {
        let ending = Locked(BroadcastSource<Int>?.none)
        let latecomers = EventLog<BroadcastReader<Int>>()
        // Asked while the first reader, who has a value waiting, is told the last one.
        let source = BroadcastSource<Int> { _, _ in
            if let source = ending.withLock({ $0 }) { latecomers.record(source.makeReader()) }
            return true
        }
        let first = source.makeReader()
        source.send(1)
        ending.withLock { $0 = source }
        source.end(with: 2)
        ending.withLock { $0 = nil }
        #expect(await all(first) == [2])
        #expect(latecomers.count == 1)
        for reader in latecomers.events { #expect(await all(reader) == [2]) }
    }

    @Test func nothingFollowsTheEnd() async {
        let source = BroadcastSource<Int> { _, _ in false }
        let reader = source.makeReader()
        source.send(1)
        source.end(with: 2)
        source.end(with: 3)
        source.send(4)
        #expect(await all(reader) == [1, 2])
        #expect(await all(source.makeReader()) == [2])
    }

    @Test func anEndWithoutAValueLeavesTheLastOne() async {
        let source = BroadcastSource<Int> { _, _ in false }
        source.send(1)
        source.end()
        #expect(await all(source.makeReader()) == [1])
    }
}
