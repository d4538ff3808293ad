import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests every store: adding, claiming, settling.
///
/// The extensions test relations of jobs, leases, lapses and hosts.
@Suite struct StoreConformanceTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    // MARK: Adding

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
        await store.close()
    }

    @Test(arguments: ConformingStore.all, [1, 65_536, 65_537, 3_000_000])
    func bodiesOfAnySizeAreKept(conforming: ConformingStore, byteCount: Int) async throws {
        let store = try await conforming.open(place)
        let bytes = Data([UInt8].pattern(byteCount: byteCount))
        try await store.add(.test("a") { $0.request.body = .data(bytes) })
        let claimed = try #require(try await store.claim().first)
        switch claimed.job.request.body {
        case .data(let data)?: #expect(data == bytes)
        case .file(let file)?: #expect(try Data(contentsOf: file) == bytes)
        case nil: Issue.record("the body is gone")
        }
        #expect(try await store.settle(claimed, .done))
        #expect(try await store.job("a")?.job.request.body == nil || conforming.name == "memory")
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func aFileOfTheCallersStaysOne(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        let file = place.directory.appending(path: "body file")
        try await store.add(.test("a") { $0.request.body = .file(file) })
        #expect(try await store.job("a")?.job.request.body == .file(file))
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func anIdIsAddedOnce(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a", kind: "first"))
        let additions = try await store.add([.test("a", kind: "second"), .test("b"), .test("b")])
        #expect(additions.map(\.outcome) == [.alreadyThere, .added, .alreadyThere])
        #expect(try await store.job("a")?.job.kind == "first")
        #expect(try await store.finishAll() == ["a", "b"])
        #expect(try await store.add([.test("a")]).map(\.outcome) == [.alreadyThere])
        #expect(try await store.state("a") == .done)
        await store.close()
    }

    @Test(arguments: ConformingStore.all)
    func allOrNoneAreAdded(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        await #expect(throws: QueueError.self) {
            _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["nowhere"] }])
        }
        #expect(try await store.states() == [:])
        #expect(try await store.status() == QueueStatus())
        await store.close()
    }

    // MARK: Claiming

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
        await store.close()
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
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func otherKindsAreNotClaimed(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a", kind: "x"), .test("b", kind: "y"), .test("c", kind: "z")])
        #expect(try await store.claim(kinds: .only([])).isEmpty)
        #expect(try await store.claim(kinds: .only(["y", "none"])).ids == ["b"])
        #expect(try await store.claim(kinds: .except(["x"])).ids == ["c"])
        #expect(try await store.claim(kinds: .all).ids == ["a"])
        await store.close()
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
        await store.close()
    }

    // MARK: Settling

    @Test(arguments: ConformingStore.all)
    func aRetryWaitsItsTime(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        try await store.add(.test("a"))
        let first = try #require(try await store.claim().first)
        let attempt = JobAttempt(
            started: Date(timeIntervalSince1970: 1_000), milliseconds: 12, statusCode: 503,
            failure: "unacceptableStatus",
            message: "the server answered 503")
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
        await store.close()
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
        await store.close()
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
        await store.close()
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
        await store.close()
    }
}
