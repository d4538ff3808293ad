import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests dependencies, groups and keys, and how jobs are retried, cancelled, deleted and listed.
extension StoreConformanceTests {
    @Test(arguments: ConformingStore.all)
    func aDependencyIsDoneFirst(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a"), .test("b"),
            .test("c") {
                $0.dependencies = ["a", "b"]
                $0.priority = .veryHigh
            }, .test("d") { $0.dependencies = ["c"] },
        ])
        #expect(try await store.job("c")?.life.holds == JobHolds(dependencies: 2))
        #expect(
            try await store.blockers(of: "c") == [
                JobBlocker(id: "a", state: .waiting, reason: .dependency),
                JobBlocker(id: "b", state: .waiting, reason: .dependency),
            ])
        #expect(try await store.blockers(of: "a") == [])
        let claimed = try await store.claim()
        #expect(claimed.ids == ["a", "b"])
        #expect(try await store.settle(claimed[0], .done))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.settle(claimed[1], .done))
        #expect(try await store.finishAll() == ["c", "d"])
        // A dependency that is already done blocks nothing.
        try await store.add(.test("e") { $0.dependencies = ["a"] })
        #expect(try await store.finishAll() == ["e"])
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func dependentsOfADeadLetterWaitAndThoseOfACancelledJobAreCancelled(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a"), .test("b") { $0.dependencies = ["a"] }, .test("c") { $0.dependencies = ["b"] },
        ])
        let claimed = try #require(try await store.claim().first)
        #expect(try await store.settle(claimed, .dead("no")))
        #expect(try await store.states() == ["a": .dead, "b": .blocked, "c": .blocked])
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().ids == ["a"])
        #expect(try await store.cancel(JobSelection(ids: ["a"])) == 3)
        #expect(try await store.states() == ["a": .cancelled, "b": .cancelled, "c": .cancelled])
        try await store.add(.test("d") { $0.dependencies = ["a"] })
        #expect(try await store.state("d") == .cancelled)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func deletingADeadLetterCancelsItsDependents(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["a"] }, .test("c")])
        let claimed = try #require(try await store.claim(1).first)
        #expect(try await store.settle(claimed, .dead("no")))
        #expect(try await store.delete(.all) == 1)
        #expect(try await store.states() == ["b": .cancelled, "c": .waiting])
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func aGroupIsSentInItsOrder(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a1") { $0.group = "a" }, .test("b1") { $0.group = "b" },
            .test("a2") {
                $0.group = "a"
                $0.priority = .veryHigh
            }, .test("a3") { $0.group = "a" }, .test("b2") { $0.group = "b" }, .test("free"),
        ])
        #expect(
            try await store.blockers(of: "a3") == [JobBlocker(id: "a1", state: .waiting, reason: .group)])
        let claimed = try await store.claim()
        #expect(claimed.ids == ["a1", "b1", "free"])
        // Neither a retry nor the end of a job in the middle lets a later job overtake.
        #expect(try await store.settle(claimed[0], .retry(after: .seconds(10))))
        #expect(try await store.cancel(JobSelection(ids: ["a2"])) == 1)
        #expect(try await store.claim().isEmpty)
        place.clock.advance(by: .seconds(10))
        #expect(try await store.finishAll() == ["a1", "a3"])
        // A dead letter unblocks the next job.
        #expect(try await store.settle(claimed[1], .dead("no")))
        #expect(try await store.claim().ids == ["b2"])
        // A retried job moves to the end.
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().isEmpty)
        #expect(try await store.job("b1")?.life.holds == JobHolds(isBehindGroup: true))
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func aRetriedDeadLetterDoesNotWaitForItsOwnDependent(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a") { $0.group = "g" },
            .test("b") {
                $0.group = "g"
                $0.dependencies = ["a"]
            }, .test("c") { $0.group = "g" },
        ])
        let claimed = try #require(try await store.claim().first)
        #expect(try await store.settle(claimed, .dead("no")))
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.finishAll() == ["c", "a", "b"])
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func aKeyIsKeptReplacedOrAppended(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        func job(_ id: String, _ policy: Job.Uniqueness.Policy) throws -> Job {
            try .test(id) { $0.uniqueness = .init(key: "sync", policy: policy) }
        }
        _ = try await store.add([job("a", .keep)])
        #expect(try await store.add([job("b", .keep)]) == [JobAddition(id: "a", outcome: .kept)])
        #expect(try await store.state("b") == nil)
        let claimed = try #require(try await store.claim().first)
        _ = try await store.add([job("c", .append), job("d", .append)])
        #expect(try await store.blockers(of: "d") == [JobBlocker(id: "a", state: .claimed, reason: .key)])
        #expect(try await store.claim().isEmpty)
        #expect(try await store.settle(claimed, .dead("no")))
        #expect(try await store.claim().ids == ["c"])
        #expect(try await store.add([job("e", .replace)]).map(\.outcome) == [.added])
        #expect(try await store.states() == ["a": .dead, "c": .cancelled, "d": .cancelled, "e": .waiting])
        #expect(try await store.finishAll() == ["e"])
        // A finished job has no key any more.
        #expect(try await store.add([job("f", .keep)]).map(\.outcome) == [.added])
        await store.close()
    }

    /// The new job depends on the job that it replaces.
    ///
    /// The replaced job is cancelled, so the new job is cancelled too.
    @Test(arguments: ConformingStore.all)
    func aJobThatReplacesItsDependencyIsCancelled(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a") { $0.uniqueness = .init(key: "k", policy: .append) })
        let addition = try await store.add([
            .test("b") {
                $0.uniqueness = .init(key: "k", policy: .replace)
                $0.dependencies = ["a"]
            }, .test("c") { $0.dependencies = ["b"] },
        ])
        #expect(addition.map(\.outcome) == [.added, .added])
        #expect(try await store.states() == ["a": .cancelled, "b": .cancelled, "c": .cancelled])
        #expect(try await store.claim().isEmpty)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func deadLettersAreListedRetriedAndDeleted(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a") { $0.tags = ["x"] }, .test("b"), .test("c")])
        for claimed in try await store.claim(2) {
            let attempt = JobAttempt(started: place.clock.date, statusCode: 410)
            #expect(try await store.settle(claimed, .dead("gone"), attempt: attempt))
        }
        let dead = try await store.jobs(JobSelection(states: [.dead]), after: 0, limit: 10)
        #expect(dead.map(\.job.id) == ["a", "b"] && dead.map(\.failure) == ["gone", "gone"])
        #expect(dead.first?.attempts.map(\.statusCode) == [410])
        #expect(try await store.retry(JobSelection(tag: "x")) == 1)
        let record = try #require(try await store.job("a"))
        #expect(record.attemptCount == 0 && record.attempts.count == 1 && record.failure == nil)
        #expect(record.state == .waiting && record.position > 3)
        #expect(try await store.delete(JobSelection(states: [.dead])) == 1)
        #expect(try await store.delete(JobSelection(ids: ["a", "c"])) == 0)
        #expect(try await store.states() == ["a": .waiting, "c": .waiting])
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func selectionsAndPages(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a", kind: "x") { $0.tags = ["red", "big"] }, .test("b", kind: "y") { $0.tags = ["red"] },
            .test("c", kind: "x") { $0.group = "g" }, .test("%", kind: "y") { $0.tags = ["re"] },
        ])
        func ids(_ selection: JobSelection) async throws -> [String] {
            try await store.jobs(selection, after: 0, limit: 10).map(\.job.id)
        }
        #expect(try await ids(JobSelection(kind: "x")) == ["a", "c"])
        #expect(try await ids(JobSelection(tag: "red")) == ["a", "b"])
        #expect(try await ids(JobSelection(tag: "re")) == ["%"])
        #expect(try await ids(JobSelection(group: "g")) == ["c"])
        #expect(try await ids(JobSelection(ids: ["c", "a", "z"], states: [.waiting])) == ["a", "c"])
        #expect(try await ids(JobSelection(ids: [])) == [])
        #expect(try await ids(JobSelection(states: [.done, .dead])) == [])
        var (pages, position) = ([[String]](), Int64(0))
        while case let page = try await store.jobs(.all, after: position, limit: 3), let last = page.last {
            pages.append(page.map(\.job.id))
            position = last.position
        }
        #expect(pages == [["a", "b", "c"], ["%"]])
        #expect(try await store.cancel(JobSelection(kind: "x", tag: "red")) == 1)
        #expect(try await store.cancel(JobSelection(kind: "x", tag: "red")) == 0)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func statusCountsByKindAndState(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a", kind: "x"), .test("b", kind: "x"), .test("c", kind: "y"),
            .test("d", kind: "y") { $0.dependencies = ["c"] },
        ])
        let claimed = try await store.claim(1)
        #expect(
            try await store.status()
                == QueueStatus(
                    counts: ["x": [.claimed: 1, .waiting: 1], "y": [.waiting: 1, .blocked: 1]]))
        #expect(try await store.settle(claimed[0], .done))
        _ = try await store.cancel(JobSelection(ids: ["c"]))
        let status = try await store.status()
        #expect(status == QueueStatus(counts: ["x": [.done: 1, .waiting: 1], "y": [.cancelled: 2]]))
        #expect(status.unfinishedCount == 1 && status[.cancelled] == 2)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func oldFinishedJobsArePurgedAndDeadLettersAreNot(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b"), .test("c"), .test("d")])
        let claimed = try await store.claim(2)
        #expect(try await store.settle(claimed[0], .done))
        #expect(try await store.settle(claimed[1], .dead("no")))
        _ = try await store.cancel(JobSelection(ids: ["c"]))
        place.clock.advance(by: .seconds(100))
        #expect(try await store.purge(olderThan: .seconds(101)) == 0)
        #expect(try await store.purge(olderThan: .seconds(100)) == 2)
        #expect(try await store.states() == ["b": .dead, "d": .waiting])
        #expect(try await store.add([.test("a")]).map(\.outcome) == [.added])
        await store.close()
    }
}
