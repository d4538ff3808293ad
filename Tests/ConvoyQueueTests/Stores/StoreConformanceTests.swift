import Convoy
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Tests every store: adding, claiming, settling, relations of jobs, leases, lapses and hosts.
@Suite struct StoreConformanceTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test(arguments: ConformingStore.all)
    func anAddedJobIsStoredUnchanged(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        var job = try Job.test("a", kind: "order")
        job.request.headerFields = ["X-One": "1", "x-one": "zwei €", "Content-Type": "text/plain"]
        job.request.body = .data(Data([0, 1, 255]))
        job.request.destination = place.directory.appending(path: "file")
        job.request.followsRedirectsAsGet = true
        job.priority = .high
        job.expires = place.clock.date + 60
        job.uniqueness = .init(key: "key", policy: .append)
        job.tags = ["x", "y z"]
        job.group = "group"
        #expect(try await store.add([job]) == [JobAddition(id: "a", outcome: .added)])
        let record = try #require(try await store.job("a"))
        #expect(record.job == job)
        #expect(record.state == .waiting)
        #expect(abs(record.added.timeIntervalSince(place.clock.date)) < 0.01)
        #expect(record.attempts.isEmpty && record.attemptCount == 0 && record.delay == nil && record.result == nil)
        let claimed = try #require(try await store.claim().first)
        #expect(claimed.job == job)
        #expect(claimed.claim == Claim(id: "a", token: 1) && claimed.attemptCount == 0)
        #expect(try await store.job("b") == nil)
    }

    @Test(arguments: ConformingStore.all, [1, 65_536, 65_537, 3_000_000])
    func bodiesOfAnySizeAreKept(conforming: ConformingStore, byteCount: Int) async throws {
        let store = try await conforming.open(place)
        let bytes = Reply.pattern(range: 0..<Int64(byteCount))
        try await store.add(.test("a", body: bytes))
        let claimed = try #require(try await store.claim().first)
        switch claimed.job.request.body {
        case .data(let data)?: #expect(data == bytes)
        case .file(let file)?: #expect(try Data(contentsOf: file) == bytes)
        case nil: Issue.record("the body is gone")
        }
        #expect(try await store.settle(claimed, .done))
        #expect(try await store.job("a")?.job.request.body == nil)
        // A file of the caller's stays one.
        let file = place.directory.appending(path: "body file")
        try await store.add(.test("b") { $0.request.body = .file(file) })
        #expect(try await store.job("b")?.job.request.body == .file(file))
    }

    @Test(arguments: ConformingStore.all)
    func anIdIsAddedOnceAndAllOrNone(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        await #expect(throws: QueueError.self) {
            _ = try await store.add([.test("a"), .test("b", needs: ["nowhere"])])
        }
        #expect(try await store.states() == [:])
        #expect(try await store.status() == QueueStatus())
        try await store.add(.test("a", kind: "first"))
        let additions = try await store.add([.test("a", kind: "second"), .test("b"), .test("b")])
        #expect(additions.map(\.outcome) == [.alreadyThere, .added, .alreadyThere])
        #expect(try await store.job("a")?.job.kind == "first")
        #expect(try await store.finishAll() == ["a", "b"])
        #expect(try await store.add([.test("a")]).map(\.outcome) == [.alreadyThere])
        #expect(try await store.state("a") == .done)
    }

    @Test(arguments: ConformingStore.all)
    func priorityThenOrder(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a"), .test("b") { $0.priority = .veryHigh }, .test("c") { $0.priority = .low }, .test("d"),
            .test("e") { $0.priority = .veryHigh },
        ])
        #expect(try await store.claim(2).ids == ["b", "e"])
        #expect(try await store.claim().ids == ["a", "d", "c"])
        #expect(try await store.claim().isEmpty)
    }

    @Test(arguments: ConformingStore.all)
    func twoInstancesNeverHaveTheSame(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        #expect(one.owner != two.owner)
        _ = try await one.add((1...50).map { try Job.test("\($0)") })
        async let first = one.claim(30)
        async let second = two.claim(30)
        let (mine, theirs) = try await (first.ids, second.ids)
        #expect(Set(mine).union(theirs).count == 50 && mine.count + theirs.count == 50)
    }

    @Test(arguments: ConformingStore.all)
    func otherKindsAreNotClaimed(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a", kind: "x"), .test("b", kind: "y"), .test("c", kind: "z")])
        #expect(try await store.claim(kinds: .only([])).isEmpty)
        #expect(try await store.claim(kinds: .only(["y", "none"])).ids == ["b"])
        #expect(try await store.claim(kinds: .except(["x"])).ids == ["c"])
        #expect(try await store.claim(kinds: .all).ids == ["a"])
        let kinds: [ClaimRequest.Kinds] = [.all, .only(["x"]), .except(["x"])]
        #expect(kinds.map { $0.contains("x") } == [true, true, false])
        #expect(kinds.map { $0.contains("y") } == [true, false, true])
    }

    @Test(arguments: ConformingStore.all)
    func notBeforeItsDate(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("late") { $0.notBefore = date + 3_600 }, .test("past") { $0.notBefore = date - 3_600 },
        ])
        #expect(try await store.claim().ids == ["past"])
        let delay = try #require(try await store.job("late")?.delay)
        #expect(abs(delay / .seconds(1) - 3_600) < 1)
        let next = try await store.exchange([], claiming: ClaimRequest(limit: 1, lease: .seconds(9_999))).next
        #expect(abs(try #require(next) / .seconds(1) - 3_600) < 1)
        // The expiry follows the calendar clock, even when that clock is set.
        place.clock.setCalendar(forward: 3_601)
        #expect(try await store.claim().ids == ["late"])
    }

    @Test(arguments: ConformingStore.all)
    func aRetryWaitsItsTime(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a"))
        let first = try #require(try await store.claim().first)
        let attempt = JobAttempt(
            started: Date(timeIntervalSince1970: 1_000), milliseconds: 12, statusCode: 503,
            failure: "unacceptableStatus", message: "\"the server\"\nanswered 503")
        #expect(try await store.settle(first, .retry(after: .seconds(100)), attempt: attempt))
        #expect(try await store.claim().isEmpty)
        // Setting the calendar forward or back does not change the delay.
        place.clock.setCalendar(forward: 1_000_000)
        #expect(try await store.claim().isEmpty)
        place.clock.setCalendar(forward: -2_000_000)
        place.clock.advance(by: .seconds(99))
        #expect(try await store.claim().isEmpty)
        let record = try #require(try await store.job("a"))
        #expect(record.attempts == [attempt] && record.attemptCount == 1)
        #expect(abs(try #require(record.delay) / .seconds(1) - 1) < 0.1)
        place.clock.advance(by: .seconds(1))
        let second = try #require(try await store.claim().first)
        #expect(second.attemptCount == 1 && second.claim.token == 2)
        #expect(second.job.idempotencyKey == first.job.idempotencyKey)
        // An attempt without texts is stored by other code.
        let plain = JobAttempt(
            started: Date(timeIntervalSinceReferenceDate: 785_000_000.123), milliseconds: .max, statusCode: 200)
        #expect(try await store.settle(second, .done, attempt: plain))
        #expect(try await store.job("a")?.attempts == [attempt, plain])
    }

    @Test(arguments: ConformingStore.all)
    func aClaimIsSettledOnce(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b")])
        let claimed = try await store.claim()
        let settlements = [Settlement(claimed[0].claim, .done), Settlement(claimed[0].claim, .dead("no"))]
        let none = Settlement(Claim(id: "none", token: 1), .done)
        let exchange = try await store.exchange(
            settlements + [none, Settlement(claimed[1].claim, .release)],
            claiming: ClaimRequest(limit: 10, lease: .seconds(60)))
        #expect(exchange.isSettled == [true, false, false, true])
        #expect(exchange.jobs.map(\.claim) == [Claim(id: "b", token: 2)])
        #expect(try await store.settle(claimed[1], .done) == false)
        #expect(try await store.states() == ["a": .done, "b": .claimed])
    }

    @Test(arguments: ConformingStore.all)
    func attemptsAreCountedAndTheLastAreKept(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a"))
        for number in 1...25 {
            let claimed = try #require(try await store.claim().first)
            #expect(claimed.attemptCount == number - 1)
            let attempt = JobAttempt(started: Date(timeIntervalSince1970: Double(number)), message: "number \(number)")
            #expect(try await store.settle(claimed, .retry(after: .zero), attempt: attempt))
        }
        let record = try #require(try await store.job("a"))
        #expect(record.attemptCount == 25)
        #expect(record.attempts.map(\.message) == (6...25).map { "number \($0)" })
    }

    @Test(arguments: ConformingStore.all)
    func aResultWaitsUntilItIsHandled(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b")])
        let result = JobResult(
            statusCode: 201, headerFields: ["Location": "/a", "X": "ü"], body: Data([0, 10, 200]), isBodyCut: true)
        for claimed in try await store.claim() {
            #expect(try await store.settle(claimed, .answered(result), attempt: JobAttempt(started: place.clock.date)))
        }
        #expect(try await store.states() == ["a": .answered, "b": .answered])
        #expect(try await store.claim().isEmpty)
        #expect(try await store.claim(answered: .only(["other"])).isEmpty)
        let claimed = try await store.claim(1, answered: .only(["test"]))
        #expect(claimed.map(\.result) == [result] && claimed.map(\.attemptCount) == [1])
        // A released job keeps its result and is not sent again.
        #expect(try await store.settle(claimed[0], .release))
        #expect(try await store.job("a")?.result == result)
        #expect(try await store.claim().isEmpty)
        #expect(try await store.acknowledge(JobSelection(ids: ["a"])) == 1)
        #expect(try await store.acknowledge(JobSelection(ids: ["a"])) == 0)
        let other = try #require(try await store.claim(answered: .all).first)
        #expect(try await store.settle(other, .retry(after: .zero)))
        #expect(try await store.states() == ["a": .done, "b": .waiting])
        #expect(try await store.claim().map(\.result) == [nil])
    }

    @Test(arguments: ConformingStore.all)
    func aDependencyIsDoneFirst(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a"), .test("b"), .test("c", needs: ["a", "b"]) { $0.priority = .veryHigh },
            .test("d", needs: ["c"]),
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
        try await store.add(.test("e", needs: ["a"]))
        #expect(try await store.finishAll() == ["e"])
    }

    @Test(arguments: ConformingStore.all)
    func dependentsOfADeadLetterWaitAndThoseOfACancelledJobAreCancelled(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b", needs: ["a"]), .test("c", needs: ["b"])])
        #expect(try await store.settleNext(.dead("no")))
        #expect(try await store.states() == ["a": .dead, "b": .blocked, "c": .blocked])
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().ids == ["a"])
        #expect(try await store.cancel(JobSelection(ids: ["a"])) == 3)
        #expect(try await store.states() == ["a": .cancelled, "b": .cancelled, "c": .cancelled])
        try await store.add(.test("d", needs: ["a"]))
        #expect(try await store.state("d") == .cancelled)
        #expect(try await store.delete(.all) == 4)
        // Deleting a dead letter cancels its dependents too.
        _ = try await store.add([.test("a"), .test("b", needs: ["a"]), .test("c")])
        #expect(try await store.settleNext(.dead("no")))
        #expect(try await store.delete(.all) == 1)
        #expect(try await store.states() == ["b": .cancelled, "c": .waiting])
    }

    @Test(arguments: ConformingStore.all)
    func aGroupIsSentInItsOrder(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a1", group: "a"), .test("b1", group: "b"), .test("a2", group: "a") { $0.priority = .veryHigh },
            .test("a3", group: "a"), .test("b2", group: "b"), .test("free"),
        ])
        #expect(try await store.blockers(of: "a3") == [JobBlocker(id: "a1", state: .waiting, reason: .group)])
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
    }

    @Test(arguments: ConformingStore.all)
    func aRetriedDeadLetterDoesNotWaitForItsOwnDependent(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a", group: "g"), .test("b", needs: ["a"], group: "g"), .test("c", group: "g")])
        #expect(try await store.settleNext(.dead("no")))
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.finishAll() == ["c", "a", "b"])
    }

    @Test(arguments: ConformingStore.all)
    func aKeyIsKeptReplacedOrAppended(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        func job(_ id: String, _ policy: Job.Uniqueness.Policy) throws -> Job {
            try .test(id, key: "sync", policy: policy)
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
    }

    /// The replaced job is cancelled, and with it the new job, which depends on it.
    @Test(arguments: ConformingStore.all)
    func aJobThatReplacesItsDependencyIsCancelled(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a", key: "k"))
        let addition = try await store.add([
            .test("b", needs: ["a"], key: "k", policy: .replace), .test("c", needs: ["b"]),
        ])
        #expect(addition.map(\.outcome) == [.added, .added])
        #expect(try await store.states() == ["a": .cancelled, "b": .cancelled, "c": .cancelled])
        #expect(try await store.claim().isEmpty)
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
    }

    @Test(arguments: ConformingStore.all)
    func selectionsAndPages(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a", kind: "x") { $0.tags = ["red", "big"] }, .test("b", kind: "y") { $0.tags = ["red"] },
            .test("c", kind: "x") { $0.group = "g" }, .test("%", kind: "y") { $0.tags = ["re"] },
        ])
        func ids(_ selection: JobSelection) async throws -> [String] {
            let found = try await store.jobs(selection, after: 0, limit: 10)
            let all = try await store.jobs(.all, after: 0, limit: 10)
            #expect(found == all.filter { selection.contains($0.job, in: $0.state) })
            return found.map(\.job.id)
        }
        #expect(try await ids(JobSelection(kind: "x")) == ["a", "c"])
        #expect(try await ids(JobSelection(tag: "red")) == ["a", "b"])
        #expect(try await ids(JobSelection(tag: "re")) == ["%"])
        #expect(try await ids(JobSelection(group: "g")) == ["c"])
        #expect(try await ids(JobSelection(ids: ["c", "a", "z"], states: [.waiting])) == ["a", "c"])
        #expect(try await ids(JobSelection(ids: [])) == [])
        #expect((try? await store.cancel(JobSelection(ids: ["b\0"]))) ?? 0 == 0)
        #expect(try await ids(JobSelection(states: [.done, .dead])) == [])
        var (pages, position) = ([[String]](), Int64(0))
        while case let page = try await store.jobs(.all, after: position, limit: 3), let last = page.last {
            pages.append(page.map(\.job.id))
            position = last.position
        }
        #expect(pages == [["a", "b", "c"], ["%"]])
        #expect(try await store.cancel(JobSelection(kind: "x", tag: "red")) == 1)
        #expect(try await store.cancel(JobSelection(kind: "x", tag: "red")) == 0)
    }

    @Test(arguments: ConformingStore.all)
    func statusCountsByKindAndState(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([
            .test("a", kind: "x"), .test("b", kind: "x"), .test("c", kind: "y"), .test("d", kind: "y", needs: ["c"]),
        ])
        let claimed = try await store.claim(1)
        let counts: [String: [JobState: Int]] = ["x": [.claimed: 1, .waiting: 1], "y": [.waiting: 1, .blocked: 1]]
        #expect(try await store.status() == QueueStatus(counts: counts))
        #expect(try await store.settle(claimed[0], .done))
        _ = try await store.cancel(JobSelection(ids: ["c"]))
        let status = try await store.status()
        #expect(status == QueueStatus(counts: ["x": [.done: 1, .waiting: 1], "y": [.cancelled: 2]]))
        #expect(status.unfinishedCount == 1 && status[.cancelled] == 2)
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
    }

    @Test(arguments: ConformingStore.all)
    func datesBeyondAnyCalendarAreKept(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        for (index, seconds) in [Double.infinity, 1e300, -1e300, -.infinity].enumerated() {
            let date = Date(timeIntervalSince1970: seconds)
            _ = try await store.add([
                .test("not before \(index)") { $0.notBefore = date }, .test("expires \(index)", expires: date),
            ])
        }
        #expect(try await store.claim(10).map(\.job.id) == ["expires 0", "expires 1", "not before 2", "not before 3"])
        let status = try await store.status()
        #expect(status[.dead] == 2 && status[.waiting] == 2)
        #expect(try await store.jobs(.all, after: 0, limit: 10).count == 8)
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
        // The calendar moves no lease.
        for jump in [0, 1e6, -2e6, 5e6] {
            place.clock.setCalendar(forward: jump)
            #expect(try await two.claim().isEmpty)
        }
        place.clock.advance(by: .seconds(1))
        let taken = try #require(try await two.claim().first)
        #expect(taken.job.id == "a" && taken.claim.token == 2)
        // The lease of the first owner has expired, so its settlement has no effect.
        #expect(try await one.settle(lost, .done) == false)
        #expect(try await two.settle(taken, .done))
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
    }

    @Test(arguments: ConformingStore.all)
    func ofManyExpiredJobsNoneIsClaimed(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add((1...2_500).map { try .test("\($0)", expires: place.clock.date + 10) })
        place.clock.advance(by: .seconds(11))
        for _ in 1...3 { #expect(try await store.claim().isEmpty) }
        #expect(try await store.status()[.dead] == 2_500)
    }

    @Test(arguments: ConformingStore.all)
    func anExpiredJobIsADeadLetter(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("claimed", expires: date + 10), .test("waiting", expires: date + 10),
            .test("blocked", needs: ["waiting"], expires: date + 10), .test("later", expires: date + 1_000),
        ])
        let claimed = try #require(try await store.claim(1).first)
        let request = ClaimRequest(limit: 5, lease: .seconds(9_999), kinds: .only([]))
        let next = try await store.exchange([], claiming: request).next
        #expect(abs(try #require(next) / .seconds(1) - 10) < 1)
        place.clock.advance(by: .seconds(11))
        #expect(try await store.claim().ids == ["later"])
        #expect(
            try await store.states() == ["claimed": .claimed, "waiting": .dead, "blocked": .dead, "later": .claimed])
        #expect(try await store.job("waiting")?.failure == JobRecord.expired)
        // A running job may still succeed, but is not sent again.
        #expect(try await store.settle(claimed, .retry(after: .zero)))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.state("claimed") == .dead)
        // A retried job has no expiry any more.
        #expect(try await store.retry(JobSelection(ids: ["waiting"])) == 1)
        #expect(try await store.claim().ids == ["waiting"])
    }

    @Test(arguments: ConformingStore.all)
    func anExpiredJobWaitsForItsHandler(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        _ = try await store.add([
            .test("waiting", kind: "handled", expires: date + 10),
            .test("blocked", kind: "handled", needs: ["waiting"], expires: date + 10),
            .test("later", kind: "handled", expires: date + 10) { $0.notBefore = date + 5 },
            .test("other", expires: date + 10), .test("behind", needs: ["waiting"]),
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
    }

    /// The dependency of a waiting job is deleted, and another job gets its id.
    @Test(arguments: ConformingStore.all)
    func aReusedIdDoesNotBlockAJobWhoseDependencyWasDone(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let later = place.clock.date + 1000
        _ = try await store.add([.test("a"), .test("b", needs: ["a"]) { $0.notBefore = later }])
        #expect(try await store.settleNext(.done))
        #expect(try await store.delete(JobSelection(ids: ["a"])) == 1)
        _ = try await store.add([.test("a"), .test("c", needs: ["a"])])
        #expect(try await store.settleNext(.done))
        #expect(try await store.states() == ["a": .done, "b": .waiting, "c": .waiting])
    }

    /// One of two dependencies is deleted after its end, and another job gets its id.
    @Test(arguments: ConformingStore.all)
    func aReusedIdDoesNotFreeAJobWithAnotherDependency(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("c"), .test("b", needs: ["a", "c"])])
        let both = try await store.claim(2)
        try #require(both.ids == ["a", "c"])
        #expect(try await store.settle(both[0], .done))
        #expect(try await store.delete(JobSelection(ids: ["a"])) == 1)
        _ = try await store.add([.test("a"), .test("d", needs: ["a"])])
        #expect(try await store.settleNext(.done))
        #expect(try await store.states() == ["a": .done, "b": .blocked, "c": .claimed, "d": .waiting])
        #expect(try await store.settle(both[1], .done))
        #expect(try await store.state("b") == .waiting)
    }

    /// The retried job still waits for its date, but not for the delay that followed its last attempt.
    @Test(arguments: ConformingStore.all, [true, false])
    func anExpiredJobThatIsRetriedWaitsForItsDateOnly(conforming: ConformingStore, hasDate: Bool) async throws {
        let store = try await conforming.open(place)
        let date = place.clock.date
        try await store.add(.test("a", expires: date + 10) { if hasDate { $0.notBefore = date + 3_600 } })
        if !hasDate { #expect(try await store.settleNext(.retry(after: .seconds(3_600)))) }
        place.clock.advance(by: .seconds(11))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.state("a") == .dead)
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().ids == (hasDate ? [] : ["a"]))
        place.clock.advance(by: .seconds(3_600))
        if hasDate { #expect(try await store.claim().ids == ["a"]) }
    }

    /// The retried job is blocked again by the jobs that blocked it before it expired.
    @Test(arguments: ConformingStore.all)
    func anExpiredJobThatIsRetriedIsBlockedAgain(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let expires = place.clock.date + 10
        _ = try await store.add([
            .test("first", group: "g", key: "k"), .test("needs", needs: ["first"], expires: expires),
            .test("group", group: "g", expires: expires), .test("key", key: "k", expires: expires),
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
        #expect(try await store.states() == ["first": .done, "needs": .waiting, "group": .waiting, "key": .waiting])
        #expect(try await store.job("group")?.delay != nil)
        #expect(try await store.job("key")?.delay == nil)
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
    }

    /// Claims all jobs for ten seconds and lets the leases expire, which another instance finds.
    private func lapse(_ store: any Store, foundBy other: any Store) async throws -> [ClaimedJob] {
        let claimed = try await store.claim(lease: .seconds(10))
        place.clock.advance(by: .seconds(11))
        #expect(try await other.claim(0).isEmpty)
        return claimed
    }

    @Test(arguments: ConformingStore.all)
    func claimsThatLapseAreCounted(conforming: ConformingStore) async throws {
        let (store, other) = (try await conforming.open(place), try await conforming.open(place))
        try await store.add(.test("a"))
        #expect(try await lapse(store, foundBy: other).map(\.lapseCount) == [0])
        // The first lapse causes no delay; later delays grow.
        for (count, seconds) in [(1, 1), (2, 2), (3, 4)] {
            #expect(try await lapse(store, foundBy: other).map(\.lapseCount) == [count])
            #expect(try await store.claim().isEmpty, "\(count)")
            let record = try #require(try await store.job("a"))
            #expect(record.life.lapseCount == count + 1 && record.attemptCount == 0)
            #expect(abs(try #require(record.delay) / .seconds(1) - Double(seconds)) < 0.1)
            place.clock.advance(by: .seconds(seconds))
        }
        // A release keeps the count; any other verdict resets it.
        let given = try #require(try await store.claim().first)
        #expect(given.lapseCount == 4)
        try await store.release()
        let again = try #require(try await store.claim().first)
        #expect(again.lapseCount == 4)
        #expect(try await store.settle(again, .retry(after: .zero)))
        #expect(try await store.claim(lease: .seconds(1)).map(\.lapseCount) == [0])
        // The owner itself is alive, so its ended lease is no lapse, and it keeps the job.
        place.clock.advance(by: .seconds(2))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.job("a")?.life.lapseCount == 0)
    }

    @Test(arguments: ConformingStore.all)
    func suspectsAreClaimedOneAtATime(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b"), .test("c")])
        for _ in 1...2 { #expect(try await lapse(one, foundBy: two).count == 3) }
        #expect(try await one.claim().isEmpty)
        place.clock.advance(by: .seconds(1))
        try await one.add(.test("new"))
        let first = try await one.claim()
        #expect(first.ids == ["a", "new"])
        #expect(try await one.claim().isEmpty)
        let other = try await two.claim()
        #expect(other.ids == ["b"])
        #expect(try await two.settle(other[0], .done))
        #expect(try await two.claim().ids == ["c"])
        // A dead letter that is retried begins anew.
        let suspect = try #require(first.first { $0.lapseCount == 2 })
        #expect(try await one.settle(suspect, .dead("no")))
        #expect(try await one.retry(.all) == 1)
        #expect(try await one.claim().map(\.lapseCount) == [0])
        await two.close()
    }

    private func job(_ id: String, _ host: String) throws -> Job {
        let url = try #require(URL(string: host.isEmpty ? "/a" : "http://\(host)/a"))
        return try .test(id) { $0.request.url = url }
    }

    private func claim(
        _ store: any Store, _ limit: Int, most: Int, _ rooms: [String: Int] = [:]
    ) async throws -> Exchange {
        var request = ClaimRequest(limit: limit, lease: .seconds(60))
        (request.maxPerHost, request.rooms) = (most, rooms)
        return try await store.exchange([], claiming: request)
    }

    @Test(arguments: ConformingStore.all)
    func noMoreOfAHostAreClaimedThanItHasRoom(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add(
            (1...20).map { try job("dead-\($0)", "dead.example") } + [
                job("one", "One.example"), job("two", "two.example:81"), job("high", "dead.example"),
                job("relative-1", ""), job("relative-2", ""), job("relative-3", ""),
            ])
        let first = try await claim(store, 100, most: 2)
        #expect(
            first.jobs.ids == ["dead-1", "dead-2", "one", "two", "relative-1", "relative-2", "relative-3"])
        // The store announces no time for the next claim, because the caller knows which hosts are full.
        let full = ["dead.example:80": 0]
        let second = try await claim(store, 100, most: 2, full)
        #expect(second.jobs.isEmpty && second.next == nil)
        try await store.add(job("three", "three.example"))
        #expect(try await claim(store, 100, most: 2, full).jobs.ids == ["three"])
        #expect(try await claim(store, 100, most: 2, ["dead.example:80": 1]).jobs.ids == ["dead-3"])
        #expect(try await store.claim(2).ids == ["dead-4", "dead-5"])
    }

    @Test(arguments: ConformingStore.all, [false, true])
    func triedJobsAreClaimedAfterUntriedOnes(conforming: ConformingStore, isBounded: Bool) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b") { $0.priority = .high }])
        let attempt = JobAttempt(started: place.clock.date)
        for claimed in try await store.claim() {
            #expect(try await store.settle(claimed, .retry(after: .zero), attempt: attempt))
        }
        _ = try await store.add([.test("c"), .test("d") { $0.priority = .low }])
        // If `isBounded`, the limit of the claim exceeds the limit of the host by one, so the store must apply the
        // limit of the host.
        #expect(
            try await claim(store, 4, most: isBounded ? 3 : 4).jobs.ids == ["b", "c", "a"] + (isBounded ? [] : ["d"]))
    }
}
