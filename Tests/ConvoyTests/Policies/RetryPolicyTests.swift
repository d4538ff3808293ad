import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RetryPolicyTests {
    private static let standard = RetryPolicy.standard

    private func error(_ code: RequestError.Code, isRetryable: Bool? = nil) -> RequestError {
        RequestError(code, "", isRetryable: isRetryable)
    }

    private func answered(_ statusCode: Int) -> RequestError {
        RequestError(.unacceptableStatus, "", response: ResponseHead(statusCode: statusCode))
    }

    @Test(arguments: 100...599)
    func onlyTheListedStatusCodesAreRepeated(statusCode: Int) throws {
        let permits = Self.standard.permits(answered(statusCode), of: try .test(), retries: 0)
        #expect(permits == [408, 425, 429, 500, 502, 503, 504].contains(statusCode))
    }

    @Test(arguments: RequestError.Code.all)
    func onlyLossesOfTheConnectionAreRepeated(code: RequestError.Code) throws {
        let isRepeated = [.timedOut, .connectionFailed, .connectionLost].contains(code)
        #expect(Self.standard.permits(error(code), of: try .test(), retries: 0) == isRepeated)
        // A `.proxyFailed` is retryable only if the proxy was not reached.
        let isConnecting = isRepeated || code == .proxyFailed
        if isConnecting { #expect(Self.standard.permits(error(code, isRetryable: true), of: try .test(), retries: 0)) }
        // An error that is marked as not retryable is not retried.
        #expect(!Self.standard.permits(error(code, isRetryable: false), of: try .test(), retries: 0))
    }

    @Test func listsCanBeChangedButSomeFailuresAreNeverRetried() throws {
        var policy = RetryPolicy.standard
        for code in [.cancelled, .tlsFailed, .decodingFailed, .deadlineExceeded, .invalidRequest] as [RequestError.Code]
        {
            policy.errorCodes = [code]
            #expect(!policy.permits(error(code, isRetryable: true), of: try .test(), retries: 0))
        }
        policy.statusCodes = [404]
        policy.errorCodes = [.badResponse]
        #expect(policy.permits(answered(404), of: try .test(), retries: 0))
        #expect(!policy.permits(answered(503), of: try .test(), retries: 0))
        #expect(policy.permits(error(.badResponse, isRetryable: true), of: try .test(), retries: 0))
        #expect(!policy.permits(error(.badResponse), of: try .test(), retries: 0))
        #expect(!policy.permits(error(.timedOut), of: try .test(), retries: 0))
    }

    @Test(
        arguments: [
            (.get, true), (.head, true), (.put, true), (.delete, true), (.options, true), ("TRACE", true),
            (.post, false), (.patch, false), ("PURGE", false), ("get", false),
        ] as [(HTTPMethod, Bool)])
    func onlyIdempotentRequestsAreRepeated(method: HTTPMethod, expected: Bool) throws {
        var policy = RetryPolicy.standard
        for error in [error(.connectionLost), answered(503), answered(429)] {
            policy.retriesNonIdempotent = false
            #expect(policy.permits(error, of: try .test(method), retries: 0) == expected)
            #expect(policy.permits(error, of: try .test(method, fields: ["idempotency-key": "1"]), retries: 0))
            let empty = try PreparedRequest.test(method, fields: ["Idempotency-Key": ""])
            #expect(policy.permits(error, of: empty, retries: 0) == expected)
            policy.retriesNonIdempotent = true
            #expect(policy.permits(error, of: try .test(method), retries: 0))
        }
    }

    /// After these failures, no server has applied the request.
    @Test(arguments: [.post, .patch, .put] as [HTTPMethod])
    func whatNoServerAppliedIsRepeatedWhateverTheMethod(method: HTTPMethod) throws {
        var policy = RetryPolicy.standard
        for error in [error(.connectionFailed), error(.proxyFailed, isRetryable: true), answered(408)] {
            #expect(policy.permits(error, of: try .test(method), retries: 0))
            #expect(!policy.permits(error, of: try .test(method), retries: 3))
            (policy.errorCodes, policy.statusCodes) = ([], [])
            #expect(!policy.permits(error, of: try .test(method), retries: 0))
            (policy.errorCodes, policy.statusCodes) = ([.connectionFailed, .proxyFailed], [408])
        }
        #expect(!policy.permits(error(.proxyFailed, isRetryable: false), of: try .test(method), retries: 0))
    }

    @Test(arguments: [Int.min, -1, 0, 1, 3, Int.max])
    func retriesAreCounted(maximum: Int) throws {
        let policy = RetryPolicy(maxRetries: maximum)
        for retries in [0, 1, 2, 3, 4, Int.max - 1] {
            #expect(policy.permits(answered(503), of: try .test(), retries: retries) == (retries < maximum))
        }
        #expect(!RetryPolicy.never.permits(answered(503), of: try .test(), retries: 0))
    }

    @Test func theWaitDoublesUpToTheLongest() {
        let ceilings = (1...10).map { Self.standard.delay(beforeRetry: $0, unit: 1) }
        let expected = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]
        #expect(ceilings == expected.map { .milliseconds($0) })
        // The nearest Double is greater than this duration.
        let longest = Duration(secondsComponent: 30, attosecondsComponent: 4_095)
        #expect(RetryPolicy(baseDelay: longest, maxDelay: longest).delay(beforeRetry: 1, unit: 1) == longest)
    }

    @Test(arguments: [Int.min, -1, 0, 1, 2, 7, 63, 64, 65, 1_000, 1_000_000_000, Int.max])
    func theWaitIsARandomPartForEveryRetry(n: Int) {
        var generator = SeededGenerator(seed: UInt64(bitPattern: Int64(n)))
        let ceiling = Self.standard.delay(beforeRetry: n, unit: 1)
        #expect(ceiling >= .milliseconds(500) && ceiling <= .seconds(30))
        #expect(Self.standard.delay(beforeRetry: n, unit: 0) == .zero)
        for _ in 0..<1_000 {
            let unit = Double.random(in: 0..<1, using: &generator)
            let delay = Self.standard.delay(beforeRetry: n, unit: unit)
            #expect(delay >= .zero && delay <= ceiling)
            #expect(abs(delay / ceiling - unit) < 1e-9)
        }
    }

    @Test(arguments: [
        Duration.zero, .seconds(-1), .seconds(Int64.min), .nanoseconds(1), .seconds(1), .seconds(Int64.max),
        Duration(secondsComponent: 0, attosecondsComponent: 1),
    ])
    func noSettingOverflows(base: Duration) {
        for longest in [base, .zero, .seconds(-5), .seconds(30), .seconds(Int64.max)] {
            let policy = RetryPolicy(baseDelay: base, maxDelay: longest)
            for n in [Int.min, 1, 2, 100, Int.max] {
                for unit in [0, 0.5, 1, 2, -1, .nan, .infinity, -.infinity] {
                    let delay = policy.delay(beforeRetry: n, unit: unit)
                    #expect(delay >= .zero && delay <= max(.zero, longest) && delay <= .seconds(3_155_760_000))
                }
            }
        }
    }

    @Test func retryAfterIsLimited() {
        let head = ResponseHead(statusCode: 503, headerFields: ["Retry-After": "3600"])
        var policy = RetryPolicy.standard
        #expect(policy.retryAfter(in: head, now: Date()) == .seconds(300))
        policy.maxRetryAfter = .seconds(7_200)
        #expect(policy.retryAfter(in: head, now: Date()) == .seconds(3_600))
        policy.maxRetryAfter = .seconds(-1)
        #expect(policy.retryAfter(in: head, now: Date()) == .zero)
        #expect(policy.retryAfter(in: ResponseHead(statusCode: 503), now: Date()) == nil)
    }
}

@Suite struct RetryBudgetTests {
    private static let start = ContinuousClock.now

    /// The state of a budget, as an object that an expectation can change.
    private final class Account {
        private var state: RetryBudgetState

        init(_ budget: RetryBudget) { state = RetryBudgetState(budget) }

        func noteRequest(now: ContinuousClock.Instant = start) { state.noteRequest(now: now) }
        func take(now: ContinuousClock.Instant = start) -> Bool { state.take(now: now) }

        /// Uses retries until none is left; returns their number.
        func drain(now: ContinuousClock.Instant = start) -> Int {
            var count = 0
            while count < 1_000, take(now: now) { count += 1 }
            return count
        }
    }

    @Test(
        arguments: [
            (RetryBudget(reserve: 0), 4, 0), (RetryBudget(reserve: 0), 5, 1), (RetryBudget(), 0, 10),
            (RetryBudget(), 100_000, 100), (RetryBudget(reserve: 20, maxSaved: 5), 100, 20),
        ] as [(RetryBudget, Int, Int)])
    func fiveRequestsEarnARetryAndSavedOnesAreLimited(budget: RetryBudget, requests: Int, retries: Int) {
        let state = Account(budget)
        for _ in 0..<requests { state.noteRequest() }
        #expect(state.drain() == retries)
    }

    @Test func theReserveGrowsByOneASecondUpToItsLimit() {
        let state = Account(RetryBudget())
        #expect(state.drain() == 10)
        #expect(state.drain(now: Self.start + .milliseconds(999)) == 0)
        #expect(state.drain(now: Self.start + .seconds(1)) == 1)
        #expect(state.drain(now: Self.start + .seconds(4)) == 3)
        #expect(state.drain(now: Self.start + .seconds(1_000)) == 10)
        #expect(state.drain(now: Self.start + .seconds(1_000_000_000_000)) == 10)
        let steady = Account(RetryBudget())
        _ = steady.drain()
        // Three seconds pass in steps that are shorter than a millisecond.
        #expect((1...30_000).count { steady.take(now: Self.start + .microseconds($0 * 100)) } == 3)
    }

    @Test func timeDoesNotAddToEarnedRetries() {
        let state = Account(RetryBudget())
        for _ in 0..<100 { state.noteRequest() }
        // The budget has 30 retries. The loop takes 15 of them.
        for _ in 0..<15 { #expect(state.take()) }
        #expect(state.drain(now: Self.start + .seconds(100)) == 15)
        // The balance is below the reserve now, but the same 100 seconds are not credited.
        #expect(state.drain(now: Self.start + .seconds(100)) == 0)
    }

    @Test func aClockThatGoesBackGivesNothing() {
        let state = Account(RetryBudget())
        state.noteRequest(now: Self.start + .seconds(100))
        state.noteRequest(now: Self.start)
        #expect(state.drain() == 10)
        #expect(state.drain(now: Self.start + .seconds(100)) == 0)
        #expect(state.drain() == 0)
        #expect(state.drain(now: Self.start + .seconds(101)) == 1)
    }

    @Test(arguments: LongRuns.some(2, of: [1, 2, 3, 4, 5] as [UInt64]), [0.0, 0.1, 0.2, 1])
    func retriesOfAStormAreAFractionOfTheRequests(seed: UInt64, ratio: Double) {
        var generator = SeededGenerator(seed: seed)
        let budget = RetryBudget(ratio: ratio)
        let state = Account(budget)
        var now = Self.start
        var (requests, retries) = (0, 0)
        for _ in 0..<20_000 {
            now += .microseconds(Int.random(in: 0...20_000, using: &generator))
            requests += 1
            state.noteRequest(now: now)
            // Every request fails and tries to take three retries.
            for _ in 0..<3 where state.take(now: now) { retries += 1 }
            let most = Double(budget.reserve) + ratio * Double(requests) + (now - Self.start) / .seconds(1)
            #expect(Double(retries) <= most + 1e-3)
        }
        // Retries that were earned are permitted.
        #expect(Double(retries) >= ratio * Double(requests) - 1)
    }

    @Test func withoutALimitEveryRetryIsIn() {
        let state = Account(.unlimited)
        for _ in 0..<1_000 { #expect(state.take()) }
        #expect(RetryBudget.unlimited != RetryBudget())
        #expect(!RetryBudget(ratio: .infinity).isUnlimited)
    }

    @Test(arguments: [Double.nan, -1, 0, .infinity, -.infinity, 1e-300, 1e300])
    func noSettingOverflows(number: Double) {
        for whole in [Int.min, -1, 0, 1, Int.max] {
            let budget = RetryBudget(ratio: number, reserve: whole, reservePerSecond: number, maxSaved: whole)
            let state = Account(budget)
            let moments: [Duration] = [
                .zero, .seconds(1), .seconds(-1), .seconds(Int64.max / 4), .seconds(Int64.max / 2),
            ]
            for moment in moments {
                for _ in 0..<3 { state.noteRequest(now: Self.start + moment) }
                let taken = state.take(now: Self.start + moment)
                if whole <= 0 { #expect(!taken) }
            }
        }
    }
}
