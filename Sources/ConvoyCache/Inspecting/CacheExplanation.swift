import Convoy
import Foundation

/// Describes what the cache would do with a request, and the rules that decide it.
///
/// ```swift
/// let explanation = try cache.explanation(of: Request<Data>.get("https://example.com/prices"))
/// print(explanation.isAnswered, explanation)
/// ```
public struct CacheExplanation: Sendable, CustomStringConvertible {
    /// A rule that applied to the request.
    public struct Rule: Sendable, Hashable {
        /// The document and section of the rule: `RFC 9111, 4.2`.
        public let section: String
        /// The rule, applied to this request.
        public let text: String
    }

    /// The stored response that the cache would select; nil if there is none.
    public let entry: CacheEntry?
    /// The `Cache-Status` that the cache would report.
    public let status: CacheStatus
    /// Whether the cache would answer without a request to the server.
    public let isAnswered: Bool
    /// The fields that the cache would add to the request: conditions, and the range of the missing bytes.
    public let addedFields: HeaderFields
    /// The rules, in the order in which they applied.
    public let rules: [Rule]

    /// The cache status, then the rules, one on each line.
    public var description: String {
        ([String(describing: status)] + rules.map { "\($0.text) (\($0.section))" }).joined(separator: "\n")
    }
}

extension HTTPCache {
    /// Explains what the cache would do with a request now.
    ///
    /// The call sends no request and does not change the cache. The explanation ignores the fields, interceptors and
    /// cookies that a manager adds to a request.
    ///
    /// - Parameters:
    ///   - request: the request, with its cache options.
    ///   - date: the time to decide for; now by default.
    /// - Throws: `.invalidRequest` if the request cannot be sent.
    /// - Thread: any; it may wait for the disk.
    public func explanation<Output>(
        of request: Request<Output>, at date: Date = Date()
    ) throws(RequestError) -> CacheExplanation {
        let prepared = try PreparedRequest(checking: request, hasCache: true)
        var question = question(CacheQuery(prepared, request.cacheOptions, clock: SystemClock.shared), store.digest)
        question.now = date.cacheSeconds
        return CacheExplanation(store.entries(for: question.key).map(\.head), question)
    }
}

extension CacheExplanation {
    fileprivate init(_ heads: [StoredHead], _ question: CacheQuestion) {
        var rules: [Rule] = []
        func add(_ section: String, _ text: String) { rules.append(Rule(section: section, text: text)) }
        var (status, added) = (CacheStatus(), HeaderFields())
        let decision = CacheDecision.decide(question, heads)
        let candidates = heads.filter { $0.matches(question) }
        // `max` returns the first of equal elements. In the reversed list, this is the entry stored later, as in
        // `decide`.
        let head =
            decision.index.map { heads[$0] } ?? candidates.reversed().max { $0.responseTime < $1.responseTime }
        if heads.isEmpty {
            add("RFC 9111, 2", "the cache has no response for the URL")
        } else {
            let responses = heads.count == 1 ? "1 response" : "\(heads.count) responses"
            let text = "\(responses) stored for the URL, \(candidates.count) of them for these header fields"
            add("RFC 9111, 4.1", text)
        }
        if let head { Self.addRules(of: head, question, add) }
        switch decision {
        case .serve(_, let form, let isRefreshing):
            add("RFC 9111, 4", "the cache serves \(form.words)")
            if isRefreshing { add("RFC 5861, 3", "it is stale, so a background request validates it") }
        case .unavailable:
            status.forward = .miss
            add("RFC 9111, 5.2.1.7", "the request may not be sent, so the status is 504")
        case .validate(let index, let form, let reason):
            status.forward = reason
            let isUnchanged = question.isSentUnchanged(for: form)
            if !isUnchanged { heads[index].addConditions(to: &added) }
            let sent =
                added.isEmpty
                ? "it has no validator, so the request is sent unchanged" : "it is validated by a conditional request"
            let own = "the request has its own condition or range, so it is sent unchanged"
            add("RFC 9111, 4.3.1", isUnchanged ? own : sent)
        case .complete(let index):
            status.forward = .partial
            added["Range"] = "bytes=\(heads[index].bodyBytes)-"
            added["If-Range"] = heads[index].strongValidator
            add("RFC 9111, 3.4", "its beginning is stored, and the request gets the rest")
        case .forward(let reason):
            status.forward = reason
            add("RFC 9211, 2.2", "the request is sent: \(reason.rawValue)")
        case .bypass:
            status.forward = .bypass
            add("RFC 9111, 5.2.1.5", "the cache is neither read nor written")
        }
        status.timeToLive = head?.timeToLive(at: question.now, question.sharing)
        (self.status, self.rules, addedFields, isAnswered) = (status, rules, added, decision.answers)
        entry = head.map { CacheEntry($0, question.sharing) }
    }

    private static func addRules(of head: StoredHead, _ question: CacheQuestion, _ add: (String, String) -> Void) {
        let freshness = head.freshness(question.sharing)
        if freshness.isHeuristic {
            let text = "it has no explicit lifetime; its heuristic lifetime is \(freshness.lifetime) s"
            add("RFC 9111, 4.2.2", text)
        } else {
            add("RFC 9111, 4.2.1", "it is fresh for \(freshness.lifetime) s")
        }
        let back = "it is stale, because the clock was set back since it was received"
        add("RFC 9111, 4.2.3", freshness.age(at: question.now).map { "its age is \($0) s" } ?? back)
        if head.isInvalid { add("RFC 9111, 4.3.5", "a response to HEAD showed that it is outdated") }
        if freshness.control.isUnqualified("no-cache") {
            add("RFC 9111, 5.2.2.4", "no-cache: it is validated before each use")
        }
        if !freshness.allowsStale(question.sharing) { add("RFC 9111, 4.2.4", "it may not be served stale") }
    }
}

extension CacheDecision {
    fileprivate var index: Int? {
        switch self {
        case .serve(let index, _, _), .validate(let index, _, _), .complete(let index): index
        case .forward, .bypass, .unavailable: nil
        }
    }
}

extension CacheDecision.Form {
    fileprivate var words: String {
        switch self {
        case .whole: "the complete stored response"
        case .part(let positions): "bytes \(positions.lowerBound) to \(positions.upperBound - 1) of the stored response"
        case .storedPart: "the stored part"
        case .notModified: "status 304, because the condition of the request matches"
        case .unsatisfiable: "status 416, because the stored response has no such bytes"
        }
    }
}
