import Testing

@testable import Convoy

@Suite struct BroadcastTests {
    private func all(_ reader: BroadcastReader<Int>) async -> [Int] {
        var values: [Int] = []
        while let value = await reader.next() { values.append(value) }
        return values
    }

    @Test func aReaderCreatedAfterTheEndReceivesTheLastValue() async {
        let source = BroadcastSource<Int> { _, _ in true }
        let first = source.makeReader()
        source.send(1)
        source.end(with: 2)
        #expect(await all(first) == [2])
        #expect(await all(source.makeReader()) == [2])
    }

    @Test func aValueWithALowerNumberThanTheLastIsDropped() async {
        let source = BroadcastSource<Int> { _, _ in false }
        let reader = source.makeReader()
        source.send(20, number: 2)
        source.send(10, number: 1)
        source.end(with: 30, number: 3)
        source.send(40, number: 4)
        #expect(await all(reader) == [20, 30])
    }

    @Test func aReleasedReaderIsNotKept() async {
        let source = BroadcastSource<Int> { _, _ in false }
        weak var released: BroadcastReader<Int>?
        let reader = source.makeReader()
        for _ in 0..<100 {
            let dropped = source.makeReader()
            released = dropped
        }
        #expect(released == nil)
        source.send(1)
        source.end()
        #expect(await all(reader) == [1])
    }

    @Test func aPacedReaderReceivesTheLatestValueAfterItsInterval() async {
        let clock = VirtualClock()
        let source = BroadcastSource<Int>(clock: clock) { _, _ in true }
        let reader = source.makeReader(every: .seconds(1))
        source.send(1)
        #expect(await reader.next() == 1)
        let seen = EventLog<Int?>()
        let reading = Task { seen.record(await reader.next()) }
        source.send(2)
        await clock.armed.wait()
        source.send(3)
        #expect(clock.armed.count == 1)
        clock.advance(by: .milliseconds(999))
        #expect(seen.count == 0)
        clock.advance(by: .milliseconds(1))
        #expect(await seen.wait() == [3])
        await reading.value
        // The last value and the end are delivered at once, without the reader's interval.
        source.send(4)
        source.end(with: 5)
        #expect(await reader.next() == 5)
        #expect(await reader.next() == nil)
    }

    @Test func aReaderThatWaitsForItsTimeEndsWithItsTask() async {
        let clock = VirtualClock()
        let source = BroadcastSource<Int>(clock: clock) { _, _ in true }
        let reader = source.makeReader(every: .seconds(1))
        source.send(1)
        #expect(await reader.next() == 1)
        source.send(2)
        let reading = Task { await reader.next() }
        await clock.armed.wait()
        reading.cancel()
        #expect(await reading.value == nil)
        clock.advance(by: .seconds(2))
    }
}
