import Convoy
import Foundation

/// A request that a queue stores until its outcome has been acknowledged.
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
    /// Decides what happens to a new job if an unfinished job with the same key exists.
    public struct Uniqueness: Sendable, Hashable {
        /// The rule for two jobs with the same key.
        public enum Policy: String, Sendable, Hashable, CaseIterable {
            /// Keeps the existing job; the new one is not added.
            case keep
            /// Adds the new job, and cancels the existing job and its dependents.
            case replace
            /// Keeps both jobs; the new one is sent after the existing one has finished with any outcome.
            case append
        }

        /// The key; the store compares it with the keys of all other unfinished jobs.
        public var key: String
        /// The rule for two jobs with the same key.
        public var policy: Policy

        /// Makes a uniqueness.
        public init(key: String, policy: Policy) {
            self.key = key
            self.policy = policy
        }
    }

    /// The identifier of the job; by default a UUID.
    ///
    /// A job whose id already exists in the store is not added, so adding a job again after a crash is safe.
    public var id: String
    /// The kind of the job, which selects its handler.
    public var kind: String
    /// The request to send.
    public var request: JobRequest
    /// The priority among ready jobs, of which higher ones are sent first; `.normal` by default.
    public var priority: Operation.QueuePriority = .normal
    /// The earliest date at which the job is sent; nil, the default, means at once.
    public var notBefore: Date?
    /// When a job without success becomes a dead letter, unless its handler decides otherwise; nil, the default, for never.
    public var expires: Date?
    /// The ids of jobs that must be done first, which are in the store or earlier in the same call of `add`.
    ///
    /// The job waits while a dependency is a dead letter, because a dead letter can be retried. If a dependency is
    /// cancelled, or deleted as a dead letter, the job is cancelled too.
    public var dependencies: [String] = []
    /// The key of the job and the rule for jobs with the same key; nil, the default, means no key.
    public var uniqueness: Uniqueness?
    /// Tags, by which jobs are found, listed and cancelled.
    public var tags: Set<String> = []
    /// The group of the job, whose jobs are sent one after another in the order of adding; nil, the default, means none.
    ///
    /// The next job is sent when the previous one is done, cancelled or dead. A retried dead letter moves to the end
    /// of its group.
    public var group: String?
    /// The header field `Idempotency-Key` of every attempt: by default that of the request, or else a UUID.
    public var idempotencyKey: String

    /// Makes a job.
    ///
    /// - Parameters:
    ///   - kind: the kind, which selects the handler.
    ///   - request: the request to send.
    ///   - id: the identifier of the job.
    public init(_ kind: String, _ request: JobRequest, id: String = UUID().uuidString) {
        let key = request.headerFields["Idempotency-Key"] ?? UUID().uuidString
        self.init(kind, request, id: id, idempotencyKey: key)
    }

    /// Makes a job from stored values.
    public init(_ kind: String, _ request: JobRequest, id: String, idempotencyKey: String) {
        self.id = id
        self.kind = kind
        self.request = request
        self.idempotencyKey = idempotencyKey
    }
}

extension String {
    package var shownID: String { (count > 80 ? prefix(77) + "..." : self).oneLine }
}

extension Job {
    var defect: String? {
        let texts = [("id", id), ("kind", kind), ("group", group), ("key", uniqueness?.key)]
        for case (let name, let text?) in texts {
            if text.isEmpty { return "its \(name) is empty" }
            if text.utf8.count > 500 { return "its \(name) is longer than 500 bytes" }
            if text.utf8.contains(where: { $0 == 0 || $0 == 0x0A }) { return "its \(name) contains a line feed or NUL" }
        }
        if tags.contains(where: { $0.isEmpty || $0.utf8.contains(0x0A) || $0.utf8.contains(0) }) {
            return "a tag is empty, or contains a line feed or NUL"
        }
        if dependencies.contains(id) { return "it depends on itself" }
        let hasControls = idempotencyKey.utf8.contains { $0 < 0x20 || $0 == 0x7F }
        if idempotencyKey.isEmpty || hasControls {
            return "its idempotency key is empty, or contains a control character"
        }
        return request.defect
    }
}
