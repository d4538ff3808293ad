import Convoy
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests several callers in one transaction: a failed addition affects only its own caller.
@Suite struct SharedAdditionsTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private func code(_ outcome: AdditionGroup.Outcome) -> QueueError.Code? {
        if case .failure(let error) = outcome { error.code } else { nil }
    }

    @Test func onSQLiteEachHearsItsOwn() throws {
        let worker = try SQLiteWorker(file: place.file, clock: place.clock, boot: "b")
        let large = Data(repeating: 1, count: 100_000)
        let before = try worker.add([[.test("there", key: "k", policy: .keep)]])
        #expect(before.allSatisfy { code($0) == nil })
        let outcomes = try worker.add([
            [.test("a", body: large)],
            // The first job is rolled back with the second, including its body and the replacement.
            [.test("b", key: "k", policy: .replace, body: large), .test("c", needs: ["nobody"])],
            [.test("there"), .test("d", needs: ["a"])],
        ])
        #expect(outcomes.map(code) == [nil, .unknownJob, nil])
        #expect(try outcomes[2].get().map(\.outcome) == [.alreadyThere, .added])
        #expect(try worker.states() == ["there": .waiting, "a": .waiting, "d": .blocked])
        let files = try FileManager.default.contentsOfDirectory(atPath: place.file.path + "-convoy/bodies")
        #expect(files.count == 1)
    }

    @Test func onSQLiteOnlyAdditionsThatDoNotFitFailOnAFullDisk() throws {
        let worker = try SQLiteWorker(file: place.file, clock: place.clock, boot: "b")
        let pages = try worker.connection.number("PRAGMA page_count") ?? 0
        try worker.connection.execute("PRAGMA max_page_count = \(pages + 6)")
        let body = Data(repeating: 1, count: 60_000)
        let outcomes = try worker.add([[.test("a")], [.test("b", body: body)], [.test("c")]])
        #expect(outcomes.map(code) == [nil, .diskFull, nil])
        #expect(try worker.states() == ["a": .waiting, "c": .waiting])
    }

    /// Eight tasks add jobs with bodies of one byte to 64 MiB, and read them.
    ///
    /// `QueueProgram bodies FILE 100000` adds as many jobs as for the published measurements.
    @Test(arguments: PostgresServer.isInstalled ? ["SQLite", "PostgreSQL"] : ["SQLite"])
    func bodiesOfAllSizesComeBackUnchanged(store: String) async throws {
        let address = store == "SQLite" ? place.file.path : try await PostgresServer.shared().makeDatabase()
        let child = try ChildProcess.queue(["bodies", address, "300"])
        #expect(await child.ended().status == 0)
        #expect(child.lines == ["300 bodies are unchanged"], "\(child.errors)")
    }

    /// Several callers wait while the transaction of an earlier caller is delayed.
    @Test(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
    func onPostgresEachHearsItsOwn() async throws {
        let server = try await PostgresServer.shared()
        let proxy = try PostgresProxy(to: server)
        let address = proxy.address(try await server.makeDatabase())
        let store = try await PostgresStore(address)
        try await store.add(.test("there"))
        try await sql(
            address,
            """
            CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN
                IF NEW.id = 'held' THEN PERFORM pg_advisory_xact_lock(78); END IF;
                IF NEW.id = 'bad' THEN RAISE EXCEPTION 'no such id'; END IF;
                RETURN NULL;
            END $body$
            """, "CREATE TRIGGER hold AFTER INSERT ON convoy_jobs FOR EACH ROW EXECUTE FUNCTION hold()")
        for ids in [["a", "b", "there", "c"], ["d", "bad", "e"]] {
            let gate = try await offPool { try OtherClient(address, "SELECT count(pg_advisory_lock(78))") }
            try await withThrowingTaskGroup(of: [JobAddition].self) { group in
                group.addTask { try await store.add([.test("held")]) }
                try await offPool { try gate.waitForOthers(1) }
                for (index, id) in ids.enumerated() {
                    group.addTask {
                        do { return try await store.add([.test(id)]) } catch {
                            let error = error as? QueueError
                            #expect(id == "bad" && error?.code == .failed)
                            #expect(error?.message.contains("no such id") == true)
                            return []
                        }
                    }
                    await look { store.additions.waitingCount > index }
                }
                let before = proxy.roundTripCount
                try await offPool { try gate.run("SELECT pg_advisory_unlock(78)") }
                var outcomes: [String: JobAddition.Outcome] = [:]
                for try await addition in group { for one in addition { outcomes[one.id] = one.outcome } }
                #expect(outcomes["held"] == .added && outcomes["bad"] == nil)
                #expect(outcomes.count == (ids.contains("bad") ? 3 : 5))
                #expect(outcomes["there"] == (ids.contains("there") ? .alreadyThere : nil))
                // One round trip commits all waiting additions. The other round trip belongs to the addition that
                // waited for the lock.
                if !ids.contains("bad") { #expect(proxy.roundTripCount - before == 2) }
            }
            _ = try await store.cancel(JobSelection(ids: ["held"]))
            _ = try await store.delete(JobSelection(ids: ["held"]))
        }
        let status = try await store.status()
        #expect(status[.waiting] == 6)
    }
}

extension SQLiteWorker {
    fileprivate func states() throws -> [String: JobState] {
        let records = try jobs(.all, 0, 1_000)
        return Dictionary(records.map { ($0.job.id, $0.state) }) { first, _ in first }
    }
}

extension AdditionGroup {
    /// The number of callers that wait for the running commit.
    var waitingCount: Int { state.withLock { $0.calls.count } }
}
