import Foundation
import Testing

@testable import Convoy

@Suite struct WakeUpsTests {
    @Test func wakeUpsWaitForTheEndAndKeepTheirOrder() {
        var log: [String] = []
        WakeUps.perform { log.append("at once") }
        WakeUps.postponing { wakeUps in
            WakeUps.perform { log.append("1") }
            WakeUps.perform { log.append("2") }
            log.append("first part")
            wakeUps.performAll()
            WakeUps.perform { log.append("3") }
            log.append("end")
        }
        #expect(log == ["at once", "first part", "1", "2", "end", "3"])
    }

    @Test func aWakeUpMayEndFurtherRequests() {
        var log: [String] = []
        WakeUps.postponing { _ in
            WakeUps.perform {
                // This thread has left the function, so nothing is postponed.
                WakeUps.perform { log.append("inner") }
                log.append("outer")
            }
        }
        #expect(log == ["inner", "outer"])
    }

    /// A worker that starts a callback at once would take the core of the thread that still ends requests.
    @Test func aPoolIsWokenAfterTheLastEnd() async {
        let (pool, log) = (ExecutorPool(), EventLog<String>())
        let member = Member("callback", log)
        WakeUps.postponing { _ in
            pool.submit(member)
            log.record("end")
        }
        #expect(await log.wait(count: 2) == ["end", "callback"])
    }

    /// A callback in place may wait for what this thread has postponed.
    @Test func aCallbackInPlaceFindsNothingPostponed() {
        var log: [String] = []
        WakeUps.postponing { _ in
            WakeUps.perform { log.append("wake-up") }
            CallbackInPlace.run { log.append("callback") }
        }
        #expect(log == ["wake-up", "callback"])
    }

    private final class Member: ExecutorMember {
        let name: String
        let log: EventLog<String>

        init(_ name: String, _ log: EventLog<String>) { (self.name, self.log) = (name, log) }

        func runExecutor() { log.record(name) }
    }
}
