import Foundation
import Testing

@testable import Convoy

/// Tests the object of a thread, also in a process without a free pthread key.
@Suite struct ThreadSlotTests {
    private final class Mark: Sendable {}

    @Test(arguments: [true, false])
    func eachThreadHasItsInnermostObject(hasKey: Bool) async {
        let slot = hasKey ? ThreadSlot<Mark>() : ThreadSlot<Mark>(key: nil)
        let (outer, inner, other) = (Mark(), Mark(), ThreadSlot<Mark>(key: nil))
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
