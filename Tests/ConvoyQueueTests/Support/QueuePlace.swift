// A server that counts the requests of jobs, and queues for tests.
import Convoy
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Counts requests by the key of the job, like a server that recognises repetitions.
final class KeyedServer: Sendable {
    struct Seen {
        /// The keys received for each job; with more than one, a server would process the job twice.
        var keys: [String: Set<String>] = [:]
        /// The jobs in the order of their first requests.
        var order: [String] = []
        var requestCount = 0
        var bodySizes: [String: Int] = [:]
    }

    let server: TestServer
    private let seen = Locked(Seen())

    /// - Parameter reply: the reply to a request; 200 by default.
    init(_ reply: @escaping @Sendable (RecordedRequest) -> Reply = { _ in .status(200) }) throws {
        server = try TestServer(recording: .none)
        server.respond { [seen] request in
            let (job, key) = (
                request.value(of: "X-Job") ?? request.path, request.value(of: "Idempotency-Key") ?? "none"
            )
            seen.withLock { seen in
                seen.requestCount += 1
                if seen.keys[job] == nil { seen.order.append(job) }
                seen.keys[job, default: []].insert(key)
                seen.bodySizes[job] = Int(request.bodyByteCount)
            }
            return reply(request)
        }
    }

    var all: Seen { seen.withLock { $0 } }

    func forget() { seen.withLock { $0 = Seen() } }

    func job(_ id: String, kind: String = "test", _ change: (inout Job) -> Void = { _ in }) throws -> Job {
        var job = Job(kind, JobRequest(method: .post, url: server.url("/\(id)"), headerFields: ["X-Job": id]), id: id)
        change(&job)
        return job
    }
}

extension StorePlace {
    /// A queue with the test's database file and short retries.
    func makeQueue(
        _ manager: RequestManager = RequestManager(configuration: .init(maxConcurrentPerHost: 16)),
        _ change: (inout DurableQueue.Configuration) -> Void = { _ in }
    ) throws -> DurableQueue {
        var configuration = DurableQueue.Configuration()
        configuration.retries.baseDelay = .milliseconds(1)
        change(&configuration)
        return try DurableQueue(at: file, manager: manager, configuration: configuration)
    }

    /// A queue that has sent some of its jobs, whose responses wait for the gate.
    func hanging(
        _ jobCount: Int, sent: Int,
        _ manager: RequestManager = RequestManager(configuration: .init(maxConcurrentPerHost: 16)),
        _ change: (inout DurableQueue.Configuration) -> Void = { _ in }
    ) async throws -> (gate: Gate, server: KeyedServer, queue: DurableQueue) {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200).stalling(until: gate) }
        let queue = try makeQueue(manager, change)
        try await queue.add(contentsOf: (1...jobCount).map { try server.job("\($0)") })
        queue.start(otherwise: takesAll)
        try await gate.reached(count: sent, within: .seconds(60))
        return (gate, server, queue)
    }
}

/// Accepts every outcome.
let takesAll: DurableQueue.Handler = { _, _ in .done }

extension DurableQueue {
    /// Starts the queue, waits until nothing is left to send, and returns the states.
    func states(handlers: [String: Handler] = [:], otherwise: Handler? = takesAll) async throws -> [String: JobState] {
        start(handlers, otherwise: otherwise)
        await drain()
        return try await store.states()
    }
}

typealias Told = EventLog

extension EventLog {
    func tell(_ event: Event) { record(event) }
    var all: [Event] { events }
}

extension EventLog<JobResult> {
    /// Records each result, and decides the same about all.
    func handler(_ decision: JobDecision = .done) -> DurableQueue.Handler {
        { _, result in
            self.record(result)
            return decision
        }
    }
}

extension ChildProcess {
    /// Starts `QueueProgram`.
    static func queue(_ arguments: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(program("QueueProgram"), arguments, environment: environment)
    }
}
