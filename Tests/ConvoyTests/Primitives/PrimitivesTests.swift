import Foundation
import Testing

@testable import Convoy

@Suite struct CompactInstantTests {
    @Test func instantsOutOfRangeAreClamped() {
        let now = ContinuousClock.now
        for years in [300, 1_000, 250_000_000_000] as [Int64] {
            #expect(CompactInstant(now + .seconds(years * 31_536_000)).instant > now + .seconds(9_000_000_000))
            #expect(CompactInstant(now - .seconds(years * 31_536_000)).instant < now - .seconds(9_000_000_000))
        }
    }

    @Test func anOptionalMomentTakesEightBytes() {
        struct Moments {
            @OptionalMoment var first: CompactInstant?
            @OptionalMoment var second: CompactInstant?
        }
        var moments = Moments()
        #expect(moments.first == nil && moments.second == nil)
        let moment = CompactInstant(ContinuousClock.now - .seconds(250_000_000_000 * 31_536_000))
        (moments.first, moments.second) = (moment, CompactInstant(ContinuousClock.now))
        #expect(moments.first == moment && moments.second != nil)
        moments.first = nil
        #expect(moments.first == nil && moments.second != nil)
        #expect(MemoryLayout<Moments>.size == 16)
    }
}

@Suite struct HeapTests {
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

@Suite struct RateMeterTests {
    @Test func aSteadyRateIsItself() throws {
        var meter = RateMeter()
        let start = ContinuousClock.now
        for tick in 0...50 { meter.note(Int64(tick) * 100_000, at: start + .milliseconds(100 * tick)) }
        #expect(abs(try #require(meter.bytesPerSecond) - 1_000_000) < 1)
    }

    @Test func aStallFadesAndARestartBeginsAnew() throws {
        var meter = RateMeter()
        let start = ContinuousClock.now
        meter.note(0, at: start)
        meter.note(1_000, at: start + .seconds(1))
        meter.note(1_000, at: start + .seconds(4))
        #expect(try #require(meter.bytesPerSecond) < 400)
        meter.note(0, at: start + .seconds(5))
        #expect(meter.bytesPerSecond == nil)
    }
}

/// Tests the object of a thread, also in a process without a free pthread key.
@Suite struct ThreadSlotTests {
    private final class Mark: Sendable {}

    private final class Ending: Sendable {
        let ended: DispatchSemaphore

        init(_ ended: DispatchSemaphore) { self.ended = ended }

        deinit { ended.signal() }
    }

    @Test func theObjectOfAThreadStaysUntilTheThreadEnds() {
        let (slot, ended) = (ThreadSlot<Ending>(), DispatchSemaphore(value: 0))
        let (mine, isKept) = (Ending(DispatchSemaphore(value: 0)), Locked(false))
        slot.value = mine
        Thread.detachNewThread {
            let isEmpty = slot.value == nil
            let other = Ending(ended)
            slot.value = other
            isKept.withLock { $0 = isEmpty && slot.value === other }
        }
        #expect(ended.wait(timeout: .now() + 30) == .success)
        #expect(isKept.withLock { $0 } && slot.value === mine)
    }

    @Test(arguments: [true, false])
    func eachThreadHasItsInnermostObject(hasKey: Bool) async {
        let slot = ThreadSlot<Mark>(hasKey: hasKey)
        let (outer, inner, other) = (Mark(), Mark(), ThreadSlot<Mark>(hasKey: false))
        let isEmptyElsewhere = slot.with(outer) {
            #expect(slot.value === outer && other.value == nil)
            slot.with(inner) { #expect(slot.value === inner) }
            #expect(slot.value === outer)
            let isEmpty = Locked(false)
            let thread = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                isEmpty.withLock { $0 = slot.value == nil }
                thread.signal()
            }
            thread.wait()
            return isEmpty.withLock { $0 }
        }
        #expect(isEmptyElsewhere && slot.value == nil)
    }
}

@Suite struct WakeUpsTests {
    @Test func wakeUpsWaitForTheEndAndKeepTheirOrder() {
        var log: [String] = []
        WakeUps.perform { log.append("at once") }
        WakeUps.postponing {
            WakeUps.perform {
                log.append("1")
                WakeUps.perform { log.append("nested") }
            }
            WakeUps.perform { log.append("2") }
            log.append("first part")
            WakeUps.performPostponed()
            WakeUps.perform { log.append("3") }
            log.append("end")
        }
        #expect(log == ["at once", "first part", "1", "2", "nested", "end", "3"])
    }

    /// A worker that starts a callback at once would take the core of the thread that still ends requests.
    @Test func aPoolIsWokenAfterTheLastEnd() async {
        let (pool, log) = (ExecutorPool(), EventLog<String>())
        let member = Member("callback", log)
        WakeUps.postponing {
            pool.submit(member)
            log.record("end")
        }
        #expect(await log.wait(count: 2) == ["end", "callback"])
    }

    /// A callback in place may wait for what this thread has postponed, or for what it begins itself.
    @Test func aCallbackInPlaceFindsNothingPostponed() {
        var log: [String] = []
        WakeUps.postponing {
            WakeUps.perform { log.append("wake-up") }
            CallbackInPlace.run {
                WakeUps.perform { log.append("at once") }
                log.append("callback")
            }
        }
        #expect(log == ["wake-up", "at once", "callback"])
    }

    private final class Member: ExecutorMember {
        let name: String
        let log: EventLog<String>

        init(_ name: String, _ log: EventLog<String>) { (self.name, self.log) = (name, log) }

        func runExecutor() { log.record(name) }
    }
}
