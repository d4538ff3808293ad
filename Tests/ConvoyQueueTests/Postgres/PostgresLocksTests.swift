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

    /// Runs two changes.
    ///
    /// A trigger delays the first change. The second change starts during the delay, and ends or waits for the first
    /// one.
    private func meeting(
        pausedBy trigger: String, _ first: @escaping @Sendable () async throws -> Void,
        _ second: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await sql(
            address,
            """
            CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $body$
            """, trigger)
        let isOver = Locked(false)
        let gate = try await offPool { try OtherClient(address, "SELECT count(pg_advisory_lock(77))") }
        async let one: Void = first()
        try await offPool { try gate.waitForOthers(1) }
        async let other: Void = {
            defer { isOver.withLock { $0 = true } }
            try await second()
        }()
        try await offPool {
            try gate.waitForOthers(2) { isOver.withLock { $0 } }
            try gate.run("SELECT pg_advisory_unlock(77)")
        }
        try await one
        try await other
    }

    /// A dependency ends before the addition of its second dependent is committed.
    ///
    /// The first dependent was added earlier and waits.
    @Test func aDependencyThatEndsDuringAnAdditionUnblocksTheJob() async throws {
        _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["a"] }])
        let claimed = try await store.claim()
        try await meeting(
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON convoy_needs DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION pause()
                """
        ) { [store] in
            try await store.add(.test("c") { $0.dependencies = ["a"] })
        } _: { [store] in
            let isSettled = try await store.settle(claimed[0], .done)
            #expect(isSettled)
        }
        #expect(try await store.claim().ids == ["b", "c"])
    }

    /// A dead letter is deleted between the check of the dependency and the addition.
    @Test func aDependencyThatIsDeletedDuringAnAdditionIsNotLost() async throws {
        try await store.add(.test("a"))
        let claimed = try await store.claim()
        #expect(try await store.settle(claimed[0], .dead("no")))
        try await meeting(
            pausedBy: "CREATE TRIGGER pause AFTER INSERT ON convoy_needs EXECUTE FUNCTION pause()"
        ) { [store] in
            try await store.add(.test("b") { $0.dependencies = ["a"] })
        } _: { [other] in
            let count = try await other.delete(JobSelection(ids: ["a"]))
            #expect(count == 1)
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
        try await meeting(
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER UPDATE ON convoy_jobs DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW WHEN (OLD.position <> NEW.position) EXECUTE FUNCTION pause()
                """
        ) { [store] in
            let count = try await store.retry(.all)
            #expect(count == 1)
        } _: { [store] in
            let isSettled = try await store.settle(claimed[0], .done)
            #expect(isSettled)
        }
        #expect(try await store.claim().ids == ["b"])
    }

    /// A dead letter is retried while a running job of its group ends.
    @Test func aRetryDoesNotWaitForRunningJobsOfTheGroup() async throws {
        _ = try await store.add(["dead", "running"].map { id in try Job.test(id) { $0.group = "group" } })
        #expect(try await store.settle(try #require(try await store.claim(1).first), .dead("no")))
        let running = try #require(try await store.claim(1).first)
        let order = Locked<[String]>([])
        try await meeting(
            pausedBy: """
                CREATE TRIGGER pause AFTER UPDATE ON convoy_jobs FOR EACH ROW WHEN (NEW.state = 4)
                    EXECUTE FUNCTION pause()
                """
        ) { [store] in
            let isSettled = try await store.settle(running, .done)
            order.withLock { $0.append("settled") }
            #expect(isSettled)
        } _: { [other] in
            let count = try await other.retry(.all)
            order.withLock { $0.append("retried") }
            #expect(count == 1)
        }
        // The retry did not wait for the settlement, so there was no deadlock.
        #expect(order.withLock { $0 } == ["retried", "settled"])
        try await checkPostgresRules(address)
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
        try await meeting(
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER UPDATE ON convoy_jobs DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW WHEN (NEW.id = 'last' AND OLD.state = 1 AND NEW.state = 0) EXECUTE FUNCTION pause()
                """
        ) { [store] in
            let isSettled = try await store.settle(claimed[1], .done)
            #expect(isSettled)
        } _: { [other] in
            let count = try await other.retry(.all)
            #expect(count == 1)
        }
        try await checkPostgresRules(address)
        #expect(try await store.claim().ids == ["last"])
    }

    /// A job is replaced while its result is stored.
    ///
    /// Nothing of the result remains.
    @Test func aJobThatIsReplacedWhileItIsAnswered() async throws {
        try await store.add(.test("a") { $0.uniqueness = .init(key: "key", policy: .append) })
        let claimed = try await store.claim()
        try await meeting(
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON convoy_results DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION pause()
                """
        ) { [store] in
            let isSettled = try await store.settle(claimed[0], .answered(JobResult(statusCode: 200)))
            #expect(isSettled)
        } _: { [store] in
            try await store.add(.test("b") { $0.uniqueness = .init(key: "key", policy: .replace) })
        }
        #expect(try await store.states() == ["a": .cancelled, "b": .waiting])
        try await checkPostgresRules(address)
    }
}
