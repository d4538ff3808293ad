import Testing

@testable import ConvoyCommand

@Suite struct CriticalPathTests {
    /// A request that runs during `range`, in seconds.
    private func record(_ index: Int, _ range: ClosedRange<Double>, after: [Int] = [], run: Int = 0) -> RequestRecord? {
        var line = EventLine(event: "finished", index: index, attempts: 1)
        (line.queuedAt, line.lifeSeconds, line.after) = (1_000, range.upperBound, after)
        line.timeline = [
            AttemptLine(start: range.lowerBound, wait: range.upperBound - range.lowerBound, receive: 0)
        ]
        return RequestRecord(line, run: run)
    }

    @Test func theLongestChainIsFoundAndTheLastOfThoseWaitedForBlocks() {
        let records = [
            record(0, 0...1), record(1, 0...3), record(2, 3...4, after: [0, 1]), record(3, 1...1.5, after: [0]),
            record(4, 4...6, after: [2, 3]), record(5, 0...5),
        ].compactMap(\.self)
        let path = CriticalPath(records)
        #expect(path.blockers == [nil, nil, 1, 0, 2, nil])
        #expect(path.places == [1, 2, 4])
        #expect(path.microseconds == 6_000_000)
    }

    @Test func withoutDependenciesThePathIsEmpty() {
        let path = CriticalPath([record(0, 0...1), record(1, 0...2)].compactMap(\.self))
        #expect(path.places == [])
        #expect(path.blockers == [nil, nil])
        #expect(CriticalPath([]).places == [])
    }

    @Test func indicesBelongToARunAndUnknownOnesAreIgnored() {
        let records = [
            record(0, 0...9, run: 0), record(0, 0...1, run: 1), record(1, 1...2, after: [0, 77, -5], run: 1),
        ]
        let path = CriticalPath(records.compactMap(\.self))
        #expect(path.blockers == [nil, nil, 1])
    }

    @Test func requestsInACycleAreNotOnTheCriticalPath() {
        let records = [
            record(0, 0...9, after: [1]), record(1, 0...9, after: [0]), record(2, 0...9, after: [2]),
            record(3, 0...1), record(4, 1...2, after: [3, 3]),
        ].compactMap(\.self)
        let path = CriticalPath(records)
        #expect(path.places == [3, 4])
        #expect(path.microseconds == 2_000_000)
    }

    @Test func aChainOfAHundredThousandIsWalked() {
        let records = (0..<100_000).compactMap { index in
            record(index, Double(index)...Double(index + 1), after: index > 0 ? [index - 1] : [])
        }
        let path = CriticalPath(records)
        #expect(path.places.count == 100_000)
        #expect(path.microseconds == 100_000_000_000)
    }
}
