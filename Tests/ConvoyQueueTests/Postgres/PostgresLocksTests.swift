import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation
import Testing

/// Tests the locks of two transactions that change the same dependency, key or job.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresLocksTests {
    let address: String
    let store: PostgresStore
    let other: PostgresStore

    init() async throws {
        address = try await PostgresServer.shared().makeDatabase()
        store = try await PostgresStore(address)
        other = try await PostgresStore(address)
    }

    /// Runs two changes, both of which must succeed.
    ///
    /// A trigger delays the first change. The second change starts during the delay, and ends or waits for the first
    /// one.
    private func meeting(
        after event: String, when condition: String = "true", isDeferred: Bool = true,
        _ first: @escaping @Sendable () async throws -> Bool, _ second: @escaping @Sendable () async throws -> Bool
    ) async throws {
        let gate = try await OtherClient.gate(address, after: event, when: condition, isDeferred: isDeferred)
        let isOver = Locked(false)
        async let one = first()
        try await offPool { try gate.waitForOthers(1) }
        async let other: Bool = {
            defer { isOver.withLock { $0 = true } }
            return try await second()
        }()
        try await offPool {
            try gate.waitForOthers(2) { isOver.withLock { $0 } }
            try gate.run("SELECT pg_advisory_unlock(77)")
        }
        let results = (try await one, try await other)
        #expect(results.0 && results.1)
        try await checkPostgresRules(address)
    }

    /// A dependency ends before the addition of its second dependent is committed.
    ///
    /// The first dependent was added earlier and waits.
    @Test func aDependencyThatEndsDuringAnAdditionUnblocksTheJob() async throws {
        _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["a"] }])
        let claimed = try await store.claim()
        try await meeting(after: "INSERT ON convoy_needs") { [store] in
            try await store.add([.test("c") { $0.dependencies = ["a"] }]).count == 1
        } _: { [store] in
            try await store.settle(claimed[0], .done)
        }
        #expect(try await store.claim().ids == ["b", "c"])
    }

    /// A dead letter is deleted between the check of the dependency and the addition.
    @Test func aDependencyThatIsDeletedDuringAnAdditionIsNotLost() async throws {
        try await store.add(.test("a"))
        #expect(try await store.finishAll(.dead("no")) == ["a"])
        try await meeting(after: "INSERT ON convoy_needs", isDeferred: false) { [store] in
            try await store.add([.test("b") { $0.dependencies = ["a"] }]).count == 1
        } _: { [other] in
            try await other.delete(JobSelection(ids: ["a"])) == 1
        }
        #expect(try await store.states() == ["b": .cancelled])
    }

    /// An expired job is retried while its dependency ends.
    @Test func aDependencyThatEndsDuringARetryUnblocksTheJob() async throws {
        _ = try await store.add([
            .test("a"),
            .test("b") {
                $0.dependencies = ["a"]
                $0.expires = Date(timeIntervalSince1970: 1)
            },
        ])
        let claimed = try await store.claim()
        #expect(try await store.state("b") == .dead)
        try await meeting(after: "UPDATE ON convoy_jobs", when: "OLD.position <> NEW.position") { [store] in
            try await store.retry(.all) == 1
        } _: { [store] in
            try await store.settle(claimed[0], .done)
        }
        #expect(try await store.claim().ids == ["b"])
    }

    /// A dead letter is retried while a running job of its group ends.
    @Test func aRetryDoesNotWaitForRunningJobsOfTheGroup() async throws {
        _ = try await store.add(["dead", "running"].map { id in try Job.test(id) { $0.group = "group" } })
        #expect(try await store.settle(try #require(try await store.claim(1).first), .dead("no")))
        let running = try #require(try await store.claim(1).first)
        let order = Told<String>()
        try await meeting(after: "UPDATE ON convoy_jobs", when: "NEW.state = 4", isDeferred: false) { [store] in
            defer { order.tell("settled") }
            return try await store.settle(running, .done)
        } _: { [other] in
            defer { order.tell("retried") }
            return try await other.retry(.all) == 1
        }
        // The retry did not wait for the settlement, so there was no deadlock.
        #expect(order.all == ["retried", "settled"])
        #expect(try await store.claim().ids == ["dead"])
    }

    /// A dead letter is retried while the blocker of another job of its group ends.
    @Test(arguments: [true, false])
    func aRetryKeepsWhatHappensToOtherJobsOfTheGroupMeanwhile(blocksByKey: Bool) async throws {
        let key = blocksByKey ? Job.Uniqueness(key: "key", policy: .append) : nil
        _ = try await store.add([
            .test("dead") { $0.group = "group" }, .test("first") { $0.uniqueness = key },
            .test("last") { job in
                (job.group, job.uniqueness) = ("group", key)
                if !blocksByKey { job.dependencies = ["first"] }
            },
        ])
        let claimed = try await store.claim()
        try #require(claimed.ids == ["dead", "first"])
        #expect(try await store.settle(claimed[0], .dead("no")))
        #expect(try await store.state("last") == .blocked)
        let isFreed = "NEW.id = 'last' AND OLD.state = 1 AND NEW.state = 0"
        try await meeting(after: "UPDATE ON convoy_jobs", when: isFreed) { [store] in
            try await store.settle(claimed[1], .done)
        } _: { [other] in
            try await other.retry(.all) == 1
        }
        #expect(try await store.claim().ids == ["last"])
    }

    /// A job is replaced while its result is stored.
    ///
    /// Nothing of the result remains.
    @Test func aJobThatIsReplacedWhileItIsAnswered() async throws {
        try await store.add(.test("a") { $0.uniqueness = .init(key: "key", policy: .append) })
        let claimed = try await store.claim()
        try await meeting(after: "INSERT ON convoy_results") { [store] in
            try await store.settle(claimed[0], .answered(JobResult(statusCode: 200)))
        } _: { [store] in
            try await store.add([.test("b") { $0.uniqueness = .init(key: "key", policy: .replace) }]).count == 1
        }
        #expect(try await store.states() == ["a": .cancelled, "b": .waiting])
    }
}
