import Testing

@testable import Convoy

@Suite struct HeapTests {
    /// Compares the heap with a sorted list.
    @Test(arguments: 0..<10)
    func behavesAsASortedList(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var (heap, list) = (Heap<Int>(), [Int]())
        for _ in 0..<500 {
            let limit = Int.random(in: 0..<1_000, using: &random)
            switch Int.random(in: 0..<7, using: &random) {
            case 0..<5:
                heap.insert(limit)
                list.append(limit)
                list.sort()
            case 5: #expect(heap.popFirst() == (list.isEmpty ? nil : list.removeFirst()))
            default:
                heap.removeAll { $0 % 7 == limit % 7 }
                list.removeAll { $0 % 7 == limit % 7 }
            }
            #expect(heap.first == list.first && heap.count == list.count)
        }
        while let least = heap.popFirst() { #expect(least == list.removeFirst()) }
        #expect(list.isEmpty)
    }
}
