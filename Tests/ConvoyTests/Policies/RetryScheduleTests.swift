import Foundation
import Testing

@testable import Convoy

/// Tests random fault schedules in virtual time against a reference table.
@Suite(.serialized) struct RetryScheduleTests {
    /// The response of a server to one attempt.
    enum Fault: CaseIterable {
        case ok, notFound, requestTimeout, tooEarly, tooManyRequests, serverError, notImplemented, badGateway
        case unavailable, unavailableFor7Seconds, unavailableForNonsense, gatewayTimeout
        case refused, lost, idle, untrusted, malformed, tooLarge, cutBody, moved, movedPermanentlyAway

        /// The expected handling: whether the policy retries the fault, the requested delay, and the status and error
        /// in the record.
        var row: (isRetried: Bool, retryAfter: Int, statusCode: Int?, failure: RequestError.Code?) {
            switch self {
            case .ok: (false, 0, 200, nil)
            case .notFound: (false, 0, 404, nil)
            case .requestTimeout: (true, 0, 408, nil)
            case .tooEarly: (true, 0, 425, nil)
            case .tooManyRequests: (true, 3, 429, nil)
            case .serverError: (true, 0, 500, nil)
            case .notImplemented: (false, 0, 501, nil)
            case .badGateway: (true, 0, 502, nil)
            case .unavailable: (true, 0, 503, nil)
            case .unavailableFor7Seconds: (true, 7, 503, nil)
            case .unavailableForNonsense: (true, 0, 503, nil)
            case .gatewayTimeout: (true, 0, 504, nil)
            case .refused: (true, 0, nil, .connectionFailed)
            case .lost: (true, 0, nil, .connectionLost)
            case .idle: (true, 0, nil, .timedOut)
            case .untrusted: (false, 0, nil, .tlsFailed)
            case .malformed: (false, 0, nil, .badResponse)
            case .tooLarge: (false, 0, 200, .bodyTooLarge)
            case .cutBody: (true, 0, 200, .connectionLost)
            case .moved: (false, 0, 307, nil)
            case .movedPermanentlyAway: (false, 0, 301, nil)
            }
        }

        /// Answers an exchange with this fault.
        func answer(_ exchange: StubExchange, hop: Int) {
            let row = row
            switch self {
            case .refused, .lost, .idle, .untrusted, .malformed:
                exchange.finish(RequestError(row.failure ?? .badResponse, "as scheduled"))
            case .cutBody:
                exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 10))
                exchange.send(Data("half".utf8))
                exchange.finish(RequestError(.connectionLost, "as scheduled"))
            case .tooLarge: exchange.answer(200, body: Data(count: 1_000))
            case .moved, .movedPermanentlyAway:
                exchange.answer(row.statusCode ?? 0, headerFields: ["Location": "/hop\(hop)"])
            case .unavailableForNonsense: exchange.answer(503, headerFields: ["Retry-After": "-5"])
            default:
                exchange.answer(
                    row.statusCode ?? 0,
                    headerFields: row.retryAfter > 0 ? ["Retry-After": "\(row.retryAfter)"] : [:])
            }
        }
    }

    struct Schedule {
        var faults: [Fault]
        var method: HTTPMethod
        var hasKey: Bool
        var maxRetries: Int
        var units: [Double]
        var deadline: Int?

        init(seed: UInt64) {
            var random = SeededGenerator(seed: seed)
            faults = (0..<12).map { _ in Fault.allCases.randomElement(using: &random) ?? .ok } + [.ok]
            // Half of the schedules begin with retried faults, so that many have several attempts.
            if Bool.random(using: &random) {
                let retried = Fault.allCases.filter { $0.row.isRetried }
                for index in 0..<6 { faults[index] = retried.randomElement(using: &random) ?? .lost }
            }
            method = ([.get, .put, .post, .delete, .patch] as [HTTPMethod]).randomElement(using: &random) ?? .get
            hasKey = Bool.random(using: &random)
            maxRetries = Int.random(in: 0...6, using: &random)
            units = (0..<12).map { _ in Double(Int.random(in: 0...8, using: &random)) / 8 }
            deadline = Bool.random(using: &random) ? Int.random(in: 1...20, using: &random) : nil
        }
    }

    /// The expected times of requests at the server, in milliseconds since the start, and the outcome.
    static func reference(_ schedule: Schedule) -> (sentAt: [Int], statusCode: Int?, failure: RequestError.Code?) {
        let idempotent: Set<HTTPMethod> = [.get, .put, .delete]
        let mayRepeat = idempotent.contains(schedule.method) || schedule.hasKey
        var (sentAt, now, retries, method) = ([Int](), 0, 0, schedule.method)
        for fault in schedule.faults {
            sentAt.append(now)
            let row = fault.row
            if row.statusCode == 301 || row.statusCode == 307 {
                if row.statusCode == 301, method == .post { method = .get }
                continue
            }
            // No server has processed these, so any method is repeated.
            let isUnprocessed = fault == .refused || fault == .requestTimeout
            let repeats = mayRepeat || isUnprocessed || (method == .get && schedule.method == .post)
            guard row.isRetried, repeats, retries < schedule.maxRetries else {
                return (sentAt, row.statusCode, row.failure)
            }
            retries += 1
            // The delay is `Retry-After` plus full jitter. The limit of the jitter is 1 s, doubled for each retry up
            // to 8 s.
            let ceiling = min(8_000, 1_000 << (retries - 1))
            let delay = row.retryAfter * 1_000 + Int(Double(ceiling) * schedule.units[retries - 1])
            if let deadline = schedule.deadline, now + delay >= deadline * 1_000 {
                return (sentAt, row.statusCode, row.failure)
            }
            now += delay
        }
        return (sentAt, nil, nil)
    }

    @Test(arguments: 0..<LongRuns.count(6, long: 20))
    func theServerReceivesTheAttemptsOfTheTable(block: Int) async {
        for seed in (block * 50)..<(block * 50 + 50) {
            let schedule = Schedule(seed: UInt64(seed))
            let clock = VirtualClock()
            let sentAt = EventLog<Int>()
            let server = StubServer { exchange in
                sentAt.record(Int((clock.elapsed.seconds * 1_000).rounded()))
                let index = sentAt.count - 1
                schedule.faults[min(index, schedule.faults.count - 1)].answer(exchange, hop: index)
            }
            let retries = Locked(0)
            let manager = server.manager(clock: clock) { configuration in
                configuration.retries = RetryPolicy(
                    maxRetries: schedule.maxRetries, baseDelay: .seconds(1), maxDelay: .seconds(8))
                configuration.retryBudget = .unlimited
                configuration.jitter = {
                    retries.withLock { retries in
                        defer { retries += 1 }
                        return schedule.units[min(retries, schedule.units.count - 1)]
                    }
                }
            }
            var request = Request<Data>(method: schedule.method, url: "http://stub/a") { body, _ in body }
                .maxBodyBytes(100).deadline(schedule.deadline.map { .seconds($0) })
            if schedule.hasKey { request = request.idempotencyKey("key") }
            let operation = manager.enqueue(request)
            // Time advances only when the operation waits for another attempt.
            await look {
                if manager.why(operation).contains(" in ") || manager.why(operation).contains("on hold") {
                    clock.advanceToNext()
                }
                return operation.result != nil
            }
            operation.cancel()
            await manager.drain()
            let expected = Self.reference(schedule)
            #expect(sentAt.events == expected.sentAt, "seed \(seed): \(schedule)")
            let attempts: [AttemptRecord]
            switch operation.result {
            case .success(let response): attempts = response.attempts
            case .failure(let error): attempts = error.attempts
            case nil: attempts = []
            }
            #expect(attempts.count == expected.sentAt.count, "seed \(seed)")
            #expect(attempts.last?.statusCode == expected.statusCode, "seed \(seed)")
            #expect(attempts.last?.failure == expected.failure, "seed \(seed)")
        }
    }
}
