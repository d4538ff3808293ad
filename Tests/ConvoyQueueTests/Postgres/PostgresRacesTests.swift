import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// Transactions of several stores that meet.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresRacesTests {
    /// Runs a body on stores of their own, all at once.
    private func each<Result: Sendable>(
        _ count: Int, on address: String, _ body: @escaping @Sendable (Int, PostgresStore) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: Result.self) { group in
            for number in 0..<count {
                group.addTask {
                    let store = try await PostgresStore(address)
                    let result = try await body(number, store)
                    await store.close()
                    return result
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func oneOfManyWithTheSameKeyIsKept() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let additions = try await each(4, on: address) { number, store in
            try await store.add(
                (0..<10).map { turn in
                    try .test("\(number)-\(turn)") { $0.uniqueness = .init(key: "key", policy: .keep) }
                })
        }
        #expect(additions.joined().count { $0.outcome == .added } == 1)
        #expect(Set(additions.joined().map(\.id)).count == 1)
        let last = try await each(4, on: address) { number, store in
            for turn in 0..<10 {
                try await store.add(
                    .test("r\(number)-\(turn)") { $0.uniqueness = .init(key: "key", policy: .replace) })
            }
            return try await store.status()
        }
        #expect(last.allSatisfy { $0.unfinishedCount == 1 })
    }

    @Test func oneOfManyWithTheSameIdIsAdded() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let ids = (0..<100).map { "\($0)" }
        let additions = try await each(4, on: address) { number, store in
            try await store.add((number % 2 == 0 ? ids : ids.reversed()).map { try .test($0) })
        }
        let added = additions.joined().filter { $0.outcome == .added }.map(\.id)
        #expect(added.count == ids.count && Set(added) == Set(ids))
    }

    @Test func whatIsCancelledWhileItIsClaimedIsLost() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let (worker, caller) = (try await PostgresStore(address), try await PostgresStore(address))
        _ = try await caller.add((0..<40).map { try .test("\($0)") })
        let claimed = try await worker.claim()
        async let cancelled = caller.cancel(.all)
        async let exchange = worker.exchange(claimed.map { Settlement($0.claim, .done) }, claiming: nil)
        let (count, settled) = (try await cancelled, try await exchange.isSettled.count { $0 })
        #expect(count + settled == 40)
        let status = try await caller.status()
        #expect(status[.cancelled] == count && status[.done] == settled)
        await worker.close()
        await caller.close()
    }

    // MARK: The locks of dependencies

    /// Runs two changes: the first is held back by a trigger, and the second begins meanwhile and ends, or waits for the first.
    private func meeting(
        _ address: String, pausedBy trigger: String, _ first: @escaping @Sendable () async throws -> Void,
        _ second: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await sql(
            address,
            """
            CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $body$
            """, trigger)
        let isOver = Locked(false)
        let gate = try await onThread { try Gate(address) }
        async let one: Void = first()
        try await onThread { try gate.waitForOthers(1) { false } }
        async let other: Void = {
            defer { isOver.withLock { $0 = true } }
            try await second()
        }()
        try await onThread {
            try gate.waitForOthers(2) { isOver.withLock { $0 } }
            try gate.open()
        }
        try await one
        try await other
    }

    /// An advisory lock that triggers wait for.
    private final class Gate: @unchecked Sendable {
        // @unchecked: used by one thread after the other.
        private let connection: PostgresConnection

        init(_ address: String) throws {
            connection = try PostgresConnection(address, within: .seconds(60))
            try connection.run("SELECT 1 FROM (SELECT pg_advisory_lock(77)) AS a")
        }

        /// Until so many connections wait for locks.
        func waitForOthers(_ count: Int64, or isOver: () -> Bool) throws {
            for _ in 1...10_000 where !isOver() {
                let rows = try connection.run(
                    """
                    SELECT count(*), pg_sleep(0.005)::text FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'
                    """, within: .seconds(60))
                if try rows.int(0, 0) ?? 0 >= count { return }
            }
        }

        func open() throws { try connection.run("SELECT pg_advisory_unlock(77)") }
    }

    /// A job behind one that others wait for already, and that is done before the addition is committed.
    @Test func aDependencyThatEndsWhileAJobIsAddedBehindIt() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["a"] }])
        let claimed = try await store.claim()
        try await meeting(
            address,
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON convoy_needs DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION pause()
                """
        ) {
            try await store.add(.test("c") { $0.dependencies = ["a"] })
        } _: {
            let isSettled = try await store.settle(claimed[0], .done)
            #expect(isSettled)
        }
        #expect(try await store.claim().ids == ["b", "c"])
        await store.close()
    }

    /// A job behind a dead letter that is deleted between the look at it and the addition.
    @Test func aDependencyThatIsDeletedWhileAJobIsAddedBehindIt() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let (store, other) = (try await PostgresStore(address), try await PostgresStore(address))
        try await store.add(.test("a"))
        let claimed = try await store.claim()
        #expect(try await store.settle(claimed[0], .dead("no")))
        try await meeting(
            address, pausedBy: "CREATE TRIGGER pause AFTER INSERT ON convoy_needs EXECUTE FUNCTION pause()"
        ) {
            try await store.add(.test("b") { $0.dependencies = ["a"] })
        } _: {
            let count = try await other.delete(JobSelection(ids: ["a"]))
            #expect(count == 1)
        }
        #expect(try await store.states() == ["b": .cancelled])
        await store.close()
        await other.close()
    }

    /// A job that expired behind another is retried while that one ends.
    @Test func aDependencyThatEndsWhileAJobIsRetriedBehindIt() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
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
            address,
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER UPDATE ON convoy_jobs DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW WHEN (OLD.position <> NEW.position) EXECUTE FUNCTION pause()
                """
        ) {
            let count = try await store.retry(.all)
            #expect(count == 1)
        } _: {
            let isSettled = try await store.settle(claimed[0], .done)
            #expect(isSettled)
        }
        #expect(try await store.claim().ids == ["b"])
        await store.close()
    }

    /// A job that is answered while another takes its place: nothing of the answer is left.
    @Test func aJobThatIsReplacedWhileItIsAnswered() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        try await store.add(.test("a") { $0.uniqueness = .init(key: "key", policy: .append) })
        let claimed = try await store.claim()
        try await meeting(
            address,
            pausedBy: """
                CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON convoy_results DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION pause()
                """
        ) {
            let isSettled = try await store.settle(claimed[0], .answered(JobResult(statusCode: 200)))
            #expect(isSettled)
        } _: {
            try await store.add(.test("b") { $0.uniqueness = .init(key: "key", policy: .replace) })
        }
        #expect(try await store.states() == ["a": .cancelled, "b": .waiting])
        try await checkRules(address)
        await store.close()
    }

    // MARK: Everything at once

    /// Additions, claims, verdicts, cancellations, retries and deletions of the same jobs by several stores.
    ///
    /// `CONVOY_RACE_TURNS=500` in the environment makes it longer.
    @Test func whatMeetsInAnyOrderKeepsTheRules() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let turns = ProcessInfo.processInfo.environment["CONVOY_RACE_TURNS"].flatMap(Int.init) ?? 40
        _ = try await each(5, on: address) { number, store in
            for turn in 0..<turns { try await Self.change(store, "\(number)-\(turn)") }
        }
        try await checkRules(address)
        let store = try await PostgresStore(address)
        _ = try await store.acknowledge(.all)
        while try await store.status().unfinishedCount + store.retry(.all) > 0 {
            guard try await !store.finishAll().isEmpty else { break }
        }
        #expect(try await store.status().unfinishedCount == 0)
        try await checkRules(address)
        await store.close()
    }

    private static func change(_ store: PostgresStore, _ name: String) async throws {
        let known = try await store.jobs(.all, after: 0, limit: 1_000).map(\.job.id).shuffled()
        let some = JobSelection(ids: Set(known.prefix(4)))
        switch Int.random(in: 0..<10) {
        case 0...3:
            let jobs = try (0..<4).map { index in
                try Job.test("\(name)-\(index)") { job in
                    if Bool.random() { job.group = "group-\(Int.random(in: 0..<3))" }
                    if Bool.random() { job.dependencies = Array(known.prefix(2)) }
                    if index == 0 {
                        job.uniqueness = .init(
                            key: "key-\(Int.random(in: 0..<2))",
                            policy: [.keep, .replace, .append].randomElement() ?? .keep)
                    }
                }
            }
            do { _ = try await store.add(jobs) } catch {
                // The dependency was deleted meanwhile.
                if error.code != .unknownJob { throw error }
            }
        case 4...6:
            let verdicts: [JobVerdict] = [
                .done, .done, .dead("no"), .retry(after: .zero), .release, .answered(JobResult(statusCode: 200)),
            ]
            let claimed = try await store.claim(3, answered: .all)
            let settlements = claimed.map { Settlement($0.claim, verdicts.randomElement() ?? .done) }
            _ = try await store.exchange(
                settlements, claiming: ClaimRequest(limit: 1, lease: .seconds(60), kinds: .all))
            try await store.release()
        case 7: _ = try await store.cancel(some)
        case 8: _ = try await store.retry(.all)
        default: _ = try await store.delete(some)
        }
    }

    /// What holds of the tables whatever has happened.
    private func checkRules(_ address: String) async throws {
        let rules = [
            "counts": """
            SELECT count(*) FROM (SELECT kind, state, sum(count) AS n FROM convoy_counts GROUP BY 1, 2) AS c
            FULL JOIN (SELECT kind, state, count(*) AS n FROM convoy_jobs GROUP BY 1, 2) AS j USING (kind, state)
            WHERE coalesce(c.n, 0) <> coalesce(j.n, 0)
            """,
            "owners": "SELECT count(*) FROM convoy_jobs WHERE (state = 2) <> (owner IS NOT NULL)",
            "holds": """
            SELECT count(*) FROM convoy_jobs AS k WHERE state < 2 AND (
                needs <> (SELECT count(DISTINCT n.needed) FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
                    WHERE n.position = k.position AND o.state <> 4)
                OR is_behind_group <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.group_name = k.group_name
                    AND o.state < 4 AND o.position < k.position)
                OR is_behind_key <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.unique_key = k.unique_key
                    AND o.state < 4 AND o.position < k.position)
                OR (state = 1) <> (needs > 0 OR is_behind_group OR is_behind_key))
            """,
            "cancelled": """
            SELECT count(*) FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
            JOIN convoy_jobs AS j ON j.position = n.position WHERE o.state = 6 AND j.state IN (0, 1, 2, 3, 5)
            """,
            "parts": """
            SELECT (SELECT count(*) FROM convoy_jobs FULL JOIN convoy_contents AS c USING (position)
                    WHERE id IS NULL OR method IS NULL)
                + (SELECT count(*) FROM convoy_jobs FULL JOIN convoy_results AS r USING (position)
                    WHERE id IS NULL OR has_result <> (r.header_fields IS NOT NULL))
                + (SELECT count(*) FROM convoy_needs LEFT JOIN convoy_jobs USING (position) WHERE id IS NULL)
            """,
        ]
        let broken = try await onThread {
            let connection = try PostgresConnection(address, within: .seconds(60))
            return try rules.mapValues { try connection.run($0, within: .seconds(60)).int(0, 0) ?? -1 }
        }
        for (rule, count) in broken { #expect(count == 0, "\(rule)") }
    }
}
