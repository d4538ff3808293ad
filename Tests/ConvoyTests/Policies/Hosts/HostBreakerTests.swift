import Testing

@testable import Convoy

@Suite struct HostBreakerTests {
    private let start = ContinuousClock.now

    private func breaker(failuresInARow: Int = 5, rate: Double? = nil) -> HostBreaker {
        var policy = BreakerPolicy(failuresInARow: failuresInARow)
        policy.failureRate = rate
        return HostBreaker(policy)
    }

    /// Admits a request and ends it at once; returns the admission.
    @discardableResult
    private func request(
        _ breaker: inout HostBreaker, fails: Bool, at now: ContinuousClock.Instant
    ) -> HostBreaker.Admission {
        let admission = breaker.admits(now: now)
        switch admission {
        case .admit(let pass), .probe(let pass): breaker.finished(pass, isFailure: fails, now: now)
        case .refuse: break
        }
        return admission
    }

    private func probe(
        _ breaker: inout HostBreaker, at now: ContinuousClock.Instant, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> HostBreaker.Pass {
        var pass: HostBreaker.Pass?
        if case .probe(let probe) = breaker.admits(now: now) { pass = probe }
        return try #require(pass, sourceLocation: sourceLocation)
    }

    private func open(_ breaker: inout HostBreaker, at now: ContinuousClock.Instant) {
        for _ in 0..<5 { request(&breaker, fails: true, at: now) }
    }

    @Test func documentedExampleCompiles() {
        var policy = BreakerPolicy()
        policy.failuresInARow = 10
        policy.openTime = .seconds(1)
        #expect(HostBreaker(policy).isPristine)
    }

    @Test func fiveFailuresInARowOpenIt() {
        var breaker = breaker()
        for _ in 0..<4 { request(&breaker, fails: true, at: start) }
        request(&breaker, fails: false, at: start)
        for _ in 0..<4 { request(&breaker, fails: true, at: start) }
        #expect(breaker.phase == .closed)
        #expect(breaker.words(now: start) == nil)
        request(&breaker, fails: true, at: start)
        #expect(breaker.phase == .open(until: start + .seconds(5)))
        #expect(breaker.admits(now: start + .milliseconds(4999)) == .refuse(until: start + .seconds(5)))
    }

    @Test func saysWhyAndWhenTheNextTryIs() {
        var breaker = breaker()
        open(&breaker, at: start)
        #expect(
            breaker.words(now: start + .milliseconds(1850))
                == "its host failed 5 times in a row; the next test is in 3.2 s")
        #expect(
            breaker.words(now: start + .seconds(100)) == "its host failed 5 times in a row; the next test is in 0.0 s")
        _ = breaker.admits(now: start + .seconds(5))
        #expect(
            breaker.words(now: start + .seconds(5))
                == "its host failed 5 times in a row; one request tests it now")
    }

    @Test func onlyOneTriesTheHostAndItsSuccessClosesIt() throws {
        var breaker = breaker()
        open(&breaker, at: start)
        let now = start + .seconds(5)
        let pass = try probe(&breaker, at: now)
        for _ in 0..<3 { #expect(breaker.admits(now: now) == .refuse(until: now + .seconds(60))) }
        breaker.finished(pass, isFailure: false, now: now)
        #expect(breaker.phase == .closed)
        #expect(breaker.isPristine)
        for _ in 0..<4 { request(&breaker, fails: true, at: now) }
        #expect(breaker.phase == .closed)
    }

    @Test func openTimeDoublesToItsMaximumAndIsShortAgainAfterASuccess() {
        var breaker = breaker()
        open(&breaker, at: start)
        var now = start
        var times: [Int64] = []
        for _ in 0..<6 {
            guard case .open(let until) = breaker.phase else { break }
            times.append((until - now).components.seconds)
            now = until
            request(&breaker, fails: true, at: now)
        }
        #expect(times == [5, 10, 20, 40, 60, 60])
        now += .seconds(60)
        request(&breaker, fails: false, at: now)
        open(&breaker, at: now)
        #expect(breaker.phase == .open(until: now + .seconds(5)))
    }

    @Test func cancelledProbeLetsTheNextOneTry() throws {
        var breaker = breaker()
        open(&breaker, at: start)
        let now = start + .seconds(6)
        let pass = try probe(&breaker, at: now)
        breaker.cancelled(pass, now: now)
        let next = try probe(&breaker, at: now)
        // The passes are from an earlier phase, so their results are ignored.
        breaker.finished(pass, isFailure: false, now: now)
        breaker.cancelled(pass, now: now)
        #expect(breaker.phase == .halfOpen(until: now + .seconds(60)))
        breaker.finished(next, isFailure: true, now: now)
        // A cancelled probe is not a failure, so the time doubles only once.
        #expect(breaker.phase == .open(until: now + .seconds(10)))
    }

    @Test func probeThatIsNotHeardOfHoldsTheOthersUpForAMinute() throws {
        var breaker = breaker()
        open(&breaker, at: start)
        let now = start + .seconds(5)
        let lost = try probe(&breaker, at: now)
        let next = try probe(&breaker, at: now + .seconds(60))
        // The lost probe may only have been slow. The first result decides.
        #expect(lost == next)
        breaker.finished(lost, isFailure: false, now: now + .seconds(61))
        breaker.finished(next, isFailure: true, now: now + .seconds(62))
        #expect(breaker.phase == .closed)
    }

    @Test func lateAnswersOfRequestsSentBeforeItOpenedSayNothing() {
        var breaker = breaker()
        let passes = (0..<10).compactMap { _ -> HostBreaker.Pass? in
            guard case .admit(let pass) = breaker.admits(now: start) else { return nil }
            return pass
        }
        for pass in passes { breaker.finished(pass, isFailure: true, now: start) }
        #expect(breaker.phase == .open(until: start + .seconds(5)))
        _ = breaker.admits(now: start + .seconds(5))
        for pass in passes { breaker.finished(pass, isFailure: false, now: start + .seconds(6)) }
        #expect(breaker.phase == .halfOpen(until: start + .seconds(65)))
    }

    @Test func cancelledRequestsNeitherCountNorResetTheCount() {
        var breaker = breaker()
        for _ in 0..<4 {
            request(&breaker, fails: true, at: start)
            if case .admit(let pass) = breaker.admits(now: start) { breaker.cancelled(pass, now: start) }
        }
        #expect(breaker.phase == .closed)
        request(&breaker, fails: true, at: start)
        #expect(breaker.phase == .open(until: start + .seconds(5)))
    }

    @Test func shareOfFailuresOpensItWithoutARow() {
        var breaker = breaker(rate: 0.5)
        for index in 0..<19 { request(&breaker, fails: index % 2 == 0, at: start + .milliseconds(index)) }
        #expect(breaker.phase == .closed)
        request(&breaker, fails: true, at: start + .milliseconds(20))
        #expect(
            breaker.words(now: start + .milliseconds(20))
                == "its host failed 11 of its last 20 requests; the next test is in 5.0 s")
    }

    @Test func shareIsOfTheLastWhileOnly() {
        var breaker = breaker(rate: 0.5)
        for index in 0..<18 { request(&breaker, fails: index % 2 == 0, at: start) }
        // Eleven seconds later, the window of ten seconds has dropped the earlier requests.
        for index in 0..<18 { request(&breaker, fails: index % 2 == 0, at: start + .seconds(11)) }
        #expect(breaker.phase == .closed)
        // Six seconds later, the window still contains the previous 18 requests.
        for index in 0..<4 { request(&breaker, fails: index % 2 == 0, at: start + .seconds(17)) }
        #expect(breaker.phase != .closed)
    }

    @Test func valuesOutOfRangeAreBroughtIntoIt() {
        var policy = BreakerPolicy(failuresInARow: -1, openTime: .seconds(-1))
        policy.maxOpenTime = .seconds(Int64.min)
        policy.minimumRequests = .min
        policy.window = .zero
        policy.failureRate = .nan
        var breaker = HostBreaker(policy)
        request(&breaker, fails: true, at: start)
        // The open time is zero, but only one request is admitted at a time.
        #expect(breaker.phase == .open(until: start))
        _ = breaker.admits(now: start)
        #expect(breaker.admits(now: start) == .refuse(until: start + .seconds(60)))
        policy = BreakerPolicy(failuresInARow: .max, openTime: .seconds(Int64.max))
        policy.failureRate = .infinity
        policy.window = .seconds(Int64.max)
        policy.minimumRequests = .max
        breaker = HostBreaker(policy)
        for _ in 0..<100 { request(&breaker, fails: true, at: start) }
        #expect(breaker.phase == .closed)
    }

    /// Calls everything in every phase, at random, with old and new passes.
    @Test(arguments: UInt64(1)...20)
    func neverLetsOutMoreThanOneWhileTheHostIsTried(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var breaker = breaker(failuresInARow: 3, rate: 0.5)
        var passes: [HostBreaker.Pass] = []
        var probe: HostBreaker.Pass?
        var now = start
        for _ in 0..<5000 {
            // The steps are so short that the breaker never gives up a probe.
            now += .milliseconds(Int.random(in: 0...20, using: &generator))
            switch breaker.admits(now: now) {
            case .admit(let pass):
                #expect(breaker.phase == .closed)
                passes.append(pass)
            case .probe(let pass):
                #expect(probe == nil)
                probe = pass
                passes.append(pass)
            case .refuse(let until): #expect(until > now)
            }
            guard let index = passes.indices.randomElement(using: &generator) else { continue }
            let pass = passes.remove(at: index)
            if Int.random(in: 0..<5, using: &generator) == 0 {
                breaker.cancelled(pass, now: now)
            } else {
                breaker.finished(pass, isFailure: Int.random(in: 0..<2, using: &generator) == 0, now: now)
            }
            if pass == probe { probe = nil }
        }
    }
}
