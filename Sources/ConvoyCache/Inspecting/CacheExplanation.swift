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
        let query = CacheQuery(
            prepared, request.cacheOptions, keepsCoding: prepared.asksForIdentity, clock: SystemClock.shared)
        var question = CacheQuestion(query, sharing: configuration.sharing, store.digest)
        question.now = date.cacheSeconds
        let key = CacheKey.key(query, store.digest)
        let entries = store.entries(for: key)
        let decision = CacheDecision.decide(question, entries.map(\.head))
        return CacheExplanation(key, entries.map(\.head), question, decision)
    }
}

extension CacheExplanation {
    fileprivate init(
        _ key: String, _ heads: [StoredHead], _ question: CacheQuestion, _ decision: CacheDecision
    ) {
        var rules: [Rule] = []
        var status = CacheStatus()
        var added = HeaderFields()
        let candidates = heads.filter { $0.matches(question) }
        // `max` returns the first of equal elements. In the reversed list, this is the entry stored later, as in
        // `decide`.
        let head =
            decision.index.map { heads[$0] } ?? candidates.reversed().max { $0.responseTime < $1.responseTime }
        entry = head.map { CacheEntry(StoredSummary(key: key, head: $0), question.sharing) }
        rules.append(Self.found(heads.count, candidates.count))
        if let head { rules += Self.rules(of: head, question) }
        switch decision {
        case .serve(_, let form, let isRefreshing):
            isAnswered = true
            rules.append(Rule(section: "RFC 9111, 4", text: "the cache serves \(form.words)"))
            if isRefreshing {
                rules.append(Rule(section: "RFC 5861, 3", text: "it is stale, so a background request validates it"))
            }
        case .unavailable:
            (isAnswered, status.forward) = (true, .miss)
            rules.append(
                Rule(section: "RFC 9111, 5.2.1.7", text: "the request may not be sent, so the status is 504"))
        case .validate(let index, let form, let reason):
            (isAnswered, status.forward) = (false, reason)
            let text: String
            if question.isSentUnchanged(for: form) {
                text = "the request has its own condition or range, so it is sent unchanged"
            } else {
                heads[index].addConditions(to: &added)
                text =
                    added.isEmpty
                    ? "it has no validator, so the request is sent unchanged"
                    : "it is validated by a conditional request"
            }
            rules.append(Rule(section: "RFC 9111, 4.3.1", text: text))
        case .complete(let index):
            (isAnswered, status.forward) = (false, .partial)
            added["Range"] = "bytes=\(heads[index].bodyBytes)-"
            added["If-Range"] = heads[index].strongValidator
            rules.append(Rule(section: "RFC 9111, 3.4", text: "its beginning is stored, and the request gets the rest"))
        case .forward(let reason):
            (isAnswered, status.forward) = (false, reason)
            rules.append(Rule(section: "RFC 9211, 2.2", text: "the request is sent: \(reason.rawValue)"))
        case .bypass:
            (isAnswered, status.forward) = (false, .bypass)
            rules.append(Rule(section: "RFC 9111, 5.2.1.5", text: "the cache is neither read nor written"))
        }
        status.timeToLive = head?.freshness(question.sharing).timeToLive(at: question.now).map { Int(clamping: $0) }
        (self.status, self.rules, addedFields) = (status, rules, added)
    }

    private static func found(_ count: Int, _ matching: Int) -> Rule {
        if count == 0 { return Rule(section: "RFC 9111, 2", text: "the cache has no response for the URL") }
        let responses = count == 1 ? "1 response" : "\(count) responses"
        let text = "\(responses) stored for the URL, \(matching) of them for these header fields"
        return Rule(section: "RFC 9111, 4.1", text: text)
    }

    private static func rules(of head: StoredHead, _ question: CacheQuestion) -> [Rule] {
        let freshness = head.freshness(question.sharing)
        var rules: [Rule] = []
        if freshness.isHeuristic {
            let text = "it has no explicit lifetime; its heuristic lifetime is \(freshness.lifetime) s"
            rules.append(Rule(section: "RFC 9111, 4.2.2", text: text))
        } else {
            rules.append(Rule(section: "RFC 9111, 4.2.1", text: "it is fresh for \(freshness.lifetime) s"))
        }
        if let age = freshness.age(at: question.now) {
            rules.append(Rule(section: "RFC 9111, 4.2.3", text: "its age is \(age) s"))
        } else {
            let text = "it is stale, because the clock was set back since it was received"
            rules.append(Rule(section: "RFC 9111, 4.2.3", text: text))
        }
        if head.isInvalid {
            rules.append(Rule(section: "RFC 9111, 4.3.5", text: "a response to HEAD showed that it is outdated"))
        }
        if freshness.control.isUnqualified("no-cache") {
            rules.append(Rule(section: "RFC 9111, 5.2.2.4", text: "no-cache: it is validated before each use"))
        }
        if !freshness.allowsStale(question.sharing) {
            rules.append(Rule(section: "RFC 9111, 4.2.4", text: "it may not be served stale"))
        }
        return rules
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
