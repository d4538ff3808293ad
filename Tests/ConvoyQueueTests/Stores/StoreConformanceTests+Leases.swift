import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests leases, expiry, and notifications of changes.
extension StoreConformanceTests {
    @Test(arguments: ConformingStore.all)
    func datesBeyondAnyCalendarAreKept(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        for (index, seconds) in [Double.infinity, 1e300, -1e300, -.infinity].enumerated() {
            let date = Date(timeIntervalSince1970: seconds)
            try await store.add(.test("not before \(index)") { $0.notBefore = date })
            try await store.add(.test("expires \(index)") { $0.expires = date })
        }
        #expect(try await store.claim(10).map(\.job.id) == ["expires 0", "expires 1", "not before 2", "not before 3"])
        let status = try await store.status()
        #expect(status[.dead] == 2 && status[.waiting] == 2)
        #expect(try await store.jobs(.all, after: 0, limit: 10).count == 8)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func aLeaseThatIsNotRenewedEnds(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b")])
        let lost = try #require(try await one.claim(1, lease: .seconds(30)).first)
        let exchange = try await two.exchange([], claiming: ClaimRequest(limit: 5, lease: .seconds(30)))
        #expect(exchange.jobs.ids == ["b"])
        #expect(abs(try #require(exchange.next) / .seconds(1) - 30) < 0.1)
        place.clock.advance(by: .seconds(29))
        #expect(try await two.renew([], for: .seconds(30)).isEmpty)
        #expect(try await two.claim().isEmpty)
        place.clock.advance(by: .seconds(1))
        let taken = try #require(try await two.claim().first)
        #expect(taken.job.id == "a" && taken.claim.token == 2)
        // The lease of the first owner has expired, so its settlement has no effect.
        #expect(try await one.settle(lost, .done) == false)
        #expect(try await two.settle(taken, .done))
        await one.close()
        await two.close()
    }

    /// The owner was stopped for longer than its lease, and calls the store before any other instance does.
    @Test(arguments: ConformingStore.all)
    func anEndedLeaseThatNoOtherInstanceFoundIsKept(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b"), .test("c")])
        let claimed = try await one.claim(2, lease: .seconds(30))
        place.clock.advance(by: .seconds(40))
        #expect(try await one.settle(claimed[0], .done))
        #expect(try await one.claim(lease: .seconds(30)).ids == ["c"], "b is not claimed twice")
        place.clock.advance(by: .seconds(40))
        #expect(try await one.renew([claimed[1].claim], for: .seconds(30)) == [])
        #expect(try await two.claim().isEmpty, "the renewed lease counts")
        #expect(try await one.settle(claimed[1], .done))
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func aHeartbeatExtendsLeasesAndReturnsLostOnes(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b"), .test("c")])
        let claims = try await one.claim(2, lease: .seconds(30)).map(\.claim)
        for _ in 1...5 {
            place.clock.advance(by: .seconds(20))
            #expect(try await one.renew(claims, for: .seconds(30)) == [])
            #expect(try await two.claim(kinds: .only(["none"])).isEmpty)
        }
        #expect(try await two.cancel(JobSelection(ids: ["b"])) == 1)
        #expect(try await one.renew(claims, for: .seconds(30)) == [Claim(id: "b", token: 1)])
        place.clock.advance(by: .seconds(31))
        #expect(try await two.claim().ids == ["a", "c"])
        #expect(try await one.renew(claims, for: .seconds(30)) == claims)
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func theCalendarMovesNoLease(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        try await one.add(.test("a"))
        _ = try await one.claim(lease: .seconds(30))
        for jump in [1e6, -2e6, 5e6] {
            place.clock.setCalendar(forward: jump)
            #expect(try await two.claim().isEmpty)
        }
        place.clock.advance(by: .seconds(30))
        #expect(try await two.claim().ids == ["a"])
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func closingReleasesClaimsAtOnce(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b")])
        _ = try await one.claim()
        try await one.release()
        #expect(try await two.claim(1).ids == ["a"])
        _ = try await one.claim()
        await one.close()
        await one.close()
        #expect(try await two.claim().ids == ["b"])
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func anExpiredJobIsADeadLetter(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("claimed") { $0.expires = date + 10 }, .test("waiting") { $0.expires = date + 10 },
            .test("blocked") {
                $0.expires = date + 10
                $0.dependencies = ["waiting"]
            }, .test("later") { $0.expires = date + 1_000 },
        ])
        let claimed = try #require(try await store.claim(1).first)
        let request = ClaimRequest(limit: 5, lease: .seconds(9_999), kinds: .only([]))
        let next = try await store.exchange([], claiming: request).next
        #expect(abs(try #require(next) / .seconds(1) - 10) < 1)
        place.clock.advance(by: .seconds(11))
        #expect(try await store.claim().ids == ["later"])
        #expect(
            try await store.states() == [
                "claimed": .claimed, "waiting": .dead, "blocked": .dead, "later": .claimed,
            ])
        #expect(try await store.job("waiting")?.failure == JobRecord.expired)
        // A running job may still succeed, but is not sent again.
        #expect(try await store.settle(claimed, .retry(after: .zero)))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.state("claimed") == .dead)
        // A retried job has no expiry any more.
        #expect(try await store.retry(JobSelection(ids: ["waiting"])) == 1)
        #expect(try await store.claim().ids == ["waiting"])
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func anExpiredJobWaitsForItsHandler(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("waiting", kind: "handled") { $0.expires = date + 10 },
            .test("blocked", kind: "handled") {
                $0.expires = date + 10
                $0.dependencies = ["waiting"]
            },
            .test("later", kind: "handled") {
                $0.expires = date + 10
                $0.notBefore = date + 5
            },
            .test("other") { $0.expires = date + 10 }, .test("behind") { $0.dependencies = ["waiting"] },
        ])
        place.clock.advance(by: .seconds(11))
        // The heartbeat knows no handlers, so it ends no jobs.
        #expect(try await store.renew([], for: .seconds(60)).isEmpty)
        #expect(try await store.state("waiting") == .waiting)
        let claimed = try await store.claim(2, answered: .only(["handled"]))
        #expect(claimed.ids == ["waiting", "blocked"])
        let told = claimed.compactMap(\.result)
        #expect(told.count == 2 && told.allSatisfy { $0.isExpired && !$0.isSuccess && $0.statusCode == nil })
        #expect(
            try await store.states() == [
                "waiting": .claimed, "blocked": .claimed, "later": .answered, "other": .dead, "behind": .blocked,
            ])
        // A released job becomes `answered` again, and another instance can claim it.
        #expect(try await store.settle(claimed[1], .release))
        #expect(try await store.state("blocked") == .answered)
        let again = try await store.claim(answered: .except(["another"]))
        #expect(again.ids == ["blocked", "later"] && again.allSatisfy { $0.result?.isExpired == true })
        #expect(try await store.settle(claimed[0], .done))
        #expect(try await store.settle(again[0], .dead(JobRecord.expired)))
        #expect(try await store.claim().ids == ["behind"])
        #expect(try await store.job("blocked")?.result == nil)
        #expect(try await store.job("blocked")?.failure == JobRecord.expired)
        await store.close()
    }

    /// A job that expired before its date is sent again, but not before its date.
    @Test(arguments: ConformingStore.all)
    func anExpiredJobThatIsRetriedStillWaitsForItsDate(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("a") {
                $0.expires = date + 10
                $0.notBefore = date + 3_600
            }
        ])
        place.clock.advance(by: .seconds(11))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.state("a") == .dead)
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().isEmpty)
        place.clock.advance(by: .seconds(3_600))
        #expect(try await store.claim().ids == ["a"])
        await store.close()
    }

    /// The dependency of a waiting job is deleted, and another job gets its id.
    @Test(arguments: ConformingStore.all)
    func aReusedIdDoesNotBlockAJobWhoseDependencyWasDone(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let later = place.clock.date + 1000
        _ = try await store.add([
            .test("a"),
            .test("b") { job in
                job.dependencies = ["a"]
                job.notBefore = later
            },
        ])
        #expect(try await store.settle(try #require(try await store.claim(1).first), .done))
        #expect(try await store.delete(JobSelection(ids: ["a"])) == 1)
        _ = try await store.add([.test("a"), .test("c") { $0.dependencies = ["a"] }])
        #expect(try await store.settle(try #require(try await store.claim(1).first), .done))
        #expect(try await store.states() == ["a": .done, "b": .waiting, "c": .waiting])
        await store.close()
    }

    /// One of two dependencies is deleted after its end, and another job gets its id.
    @Test(arguments: ConformingStore.all)
    func aReusedIdDoesNotFreeAJobWithAnotherDependency(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("c"), .test("b") { $0.dependencies = ["a", "c"] }])
        let both = try await store.claim(2)
        try #require(both.ids == ["a", "c"])
        #expect(try await store.settle(both[0], .done))
        #expect(try await store.delete(JobSelection(ids: ["a"])) == 1)
        _ = try await store.add([.test("a"), .test("d") { $0.dependencies = ["a"] }])
        #expect(try await store.settle(try #require(try await store.claim(1).first), .done))
        #expect(try await store.states() == ["a": .done, "b": .blocked, "c": .claimed, "d": .waiting])
        #expect(try await store.settle(both[1], .done))
        #expect(try await store.state("b") == .waiting)
        await store.close()
    }

    /// A retry of the expired job also removes the delay that followed its last attempt.
    @Test(arguments: ConformingStore.all)
    func anExpiredJobThatIsRetriedDoesNotWaitForItsOldDelay(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let expires = place.clock.date + 10
        _ = try await store.add([.test("a") { $0.expires = expires }])
        let claimed = try #require(try await store.claim(1).first)
        #expect(try await store.settle(claimed, .retry(after: .seconds(3_600))))
        place.clock.advance(by: .seconds(11))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.state("a") == .dead)
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().ids == ["a"])
        await store.close()
    }

    /// The retried job is blocked again by the jobs that blocked it before it expired.
    @Test(arguments: ConformingStore.all)
    func anExpiredJobThatIsRetriedIsBlockedAgain(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let expires = place.clock.date + 10
        _ = try await store.add([
            .test("first") { job in
                job.group = "g"
                job.uniqueness = .init(key: "k", policy: .append)
            },
            .test("needs") { job in
                job.expires = expires
                job.dependencies = ["first"]
            },
            .test("group") { job in
                job.expires = expires
                job.group = "g"
            },
            .test("key") { job in
                job.expires = expires
                job.uniqueness = .init(key: "k", policy: .append)
            },
        ])
        let first = try #require(try await store.claim(1).first)
        place.clock.advance(by: .seconds(11))
        let expired = try await store.claim(answered: .all)
        #expect(expired.ids == ["needs", "group", "key"] && expired.allSatisfy { $0.result?.isExpired == true })
        for (claimed, wait) in zip(expired, [0, 5, 0]) {
            #expect(try await store.settle(claimed, .retry(after: .seconds(wait))))
        }
        #expect(
            try await store.states() == ["first": .claimed, "needs": .blocked, "group": .blocked, "key": .blocked])
        #expect(try await store.blockers(of: "group").map(\.id) == ["first"])
        #expect(try await store.settle(first, .done))
        #expect(
            try await store.states() == ["first": .done, "needs": .waiting, "group": .waiting, "key": .waiting])
        #expect(try await store.job("group")?.delay != nil)
        #expect(try await store.job("key")?.delay == nil)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func eachInstanceIsNotifiedOfChanges(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        // A store without notifications has a poll interval instead.
        if two.pollInterval == nil {
            var (mine, theirs) = (one.changes().makeAsyncIterator(), two.changes().makeAsyncIterator())
            try await one.add(.test("a"))
            #expect(await mine.next() != nil)
            #expect(await theirs.next() != nil)
        }
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func jobsSurviveEveryInstance(conforming: ConformingStore) async throws {
        let first = try await conforming.open(place)
        _ = try await first.add([.test("a"), .test("b"), .test("c")])
        let claimed = try await first.claim(2)
        #expect(try await first.settle(claimed[0], .dead("no such customer"), attempt: JobAttempt(started: .now)))
        #expect(try await first.settle(claimed[1], .retry(after: .seconds(50))))
        await first.close()
        let second = try await conforming.open(place)
        #expect(try await second.states() == ["a": .dead, "b": .waiting, "c": .waiting])
        #expect(try await second.job("a")?.failure == "no such customer")
        #expect(try await second.claim().ids == ["c"])
        place.clock.advance(by: .seconds(51))
        #expect(try await second.claim().ids == ["b"])
        await second.close()
    }
}
