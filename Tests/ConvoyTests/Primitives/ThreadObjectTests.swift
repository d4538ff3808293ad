import Foundation
import Testing

@testable import Convoy

@Suite struct ThreadObjectTests {
    private final class Ending: Sendable {
        let ended: DispatchSemaphore

        init(_ ended: DispatchSemaphore) { self.ended = ended }

        deinit { ended.signal() }
    }

    @Test func theObjectOfAThreadIsMadeOnceAndReleasedWithTheThread() {
        let object = ThreadObject<Ending>()
        let (mine, ended) = (Ending(DispatchSemaphore(value: 0)), DispatchSemaphore(value: 0))
        let other = Locked<(isKept: Bool, isMine: Bool)>((false, true))
        #expect(object.value { mine } === mine)
        Thread.detachNewThread {
            let first = object.value { Ending(ended) }
            let isKept = first != nil && first === object.value { Ending(ended) }
            other.withLock { $0 = (isKept, first === mine) }
        }
        #expect(ended.wait(timeout: .now() + 30) == .success)
        #expect(other.withLock { $0.isKept && !$0.isMine })
        #expect(object.value { Ending(ended) } === mine)
    }
}
