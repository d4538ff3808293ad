// One request of the queue: what it sends, and when it may.
import Convoy
import Foundation

/// A request that a queue keeps until its outcome has been acknowledged: a value, complete when it is added.
///
/// ```swift
/// var job = Job("order", try JobRequest(.post(ordersURL, json: order)))
/// job.id = "order-\(order.number)"
/// job.group = "customer-\(order.customer)"
/// try await queue.add(job)
/// ```
///
/// ## Topics
/// - ``init(_:_:id:)``
/// - ``request``
/// - ``dependencies``
/// - ``uniqueness``
/// - ``group``
public struct Job: Sendable, Hashable {
    /// What a job with a key does to an unfinished one with the same key.
    public struct Uniqueness: Sendable, Hashable {
        /// Which of the two stays.
        public enum Policy: String, Sendable, Hashable, CaseIterable {
            /// The job that is there; the new one is not added.
            case keep
            /// The new job; the one that is there is cancelled, and so are its dependents.
            case replace
            /// Both: the new one is sent when the one that is there has finished, whatever became of it.
            case append
        }

        /// The key, in the whole queue.
        public var key: String
        /// Which of the two stays.
        public var policy: Policy

        /// Makes a uniqueness.
        public init(key: String, policy: Policy) {
            self.key = key
            self.policy = policy
        }
    }

    /// What the job is known by; a UUID unless it is set.
    ///
    /// A second job with the id of one that is in the store is not added: adding again after a crash is safe.
    public var id: String
    /// Which handler gets the outcome.
    public var kind: String
    /// What is sent.
    public var request: JobRequest
    /// Among jobs that may be sent, those with a higher priority go first; `.normal` by default.
    public var priority: Operation.QueuePriority = .normal
    /// The job is not sent before this date of the calendar; nil, the default: at once.
    public var notBefore: Date?
    /// A job that has not been sent successfully by this date becomes a dead letter, unless its handler says that it is done;
    /// nil, the default: never.
    public var expires: Date?
    /// The ids of jobs that must be done first: in the store already, or earlier in the same call of `add`.
    ///
    /// While one of them is a dead letter the job waits, because a dead letter can be retried. When one is cancelled, or a dead
    /// one is deleted, the job is cancelled too.
    public var dependencies: [String] = []
    /// What becomes of a second job with the same key; nil, the default: there is no key.
    public var uniqueness: Uniqueness?
    /// By which jobs are found, listed and cancelled.
    public var tags: Set<String> = []
    /// Jobs of one group are sent one after the other, in the order they were added; nil, the default: in no group.
    ///
    /// The next one goes when the one before has finished: done, cancelled or dead. A dead letter that is retried goes to the
    /// end of its group.
    public var group: String?
    /// What is sent as `Idempotency-Key`, the same at every attempt; a UUID.
    ///
    /// A request that has such a field of its own keeps that one.
    public var idempotencyKey: String

    /// Makes a job.
    ///
    /// - Parameters:
    ///   - kind: which handler gets the outcome.
    ///   - request: what is sent.
    ///   - id: what the job is known by.
    public init(_ kind: String, _ request: JobRequest, id: String = UUID().uuidString) {
        self.id = id
        self.kind = kind
        self.request = request
        idempotencyKey = request.headerFields["Idempotency-Key"] ?? UUID().uuidString
    }

    /// A job as a store has kept it.
    public init(_ kind: String, _ request: JobRequest, id: String, idempotencyKey: String) {
        self.id = id
        self.kind = kind
        self.request = request
        self.idempotencyKey = idempotencyKey
    }
}

extension Job {
    /// Why it cannot be added, or nil.
    var defect: String? {
        let texts = [("id", id), ("kind", kind), ("group", group), ("key", uniqueness?.key)]
        for case (let name, let text?) in texts {
            if text.isEmpty { return "its \(name) is empty" }
            if text.utf8.count > 500 { return "its \(name) is longer than 500 bytes" }
            if text.utf8.contains(where: { $0 == 0 || $0 == 0x0A }) { return "a line feed or a NUL is in its \(name)" }
        }
        if tags.contains(where: { $0.isEmpty || $0.utf8.contains(0x0A) || $0.utf8.contains(0) }) {
            return "a tag is empty, or has a line feed or a NUL in it"
        }
        if dependencies.contains(id) { return "it depends on itself" }
        let hasControls = idempotencyKey.utf8.contains { $0 < 0x20 || $0 == 0x7F }
        if idempotencyKey.isEmpty || hasControls { return "its idempotency key is empty, or has a control character" }
        return request.defect
    }
}
