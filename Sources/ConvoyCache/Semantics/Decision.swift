// Decides how to answer a request: RFC 9111, section 4.
import Convoy
import Foundation

struct CacheQuestion: Sendable {
    let method: HTTPMethod
    let headerFields: HeaderFields
    var hasBody = false
    var options = CacheOptions()
    var keepsCoding = false
    var now: Int64
    var sharing = CacheSharing.private
    let digest: KeyedDigest
    let key: String
    let credentials: String?

    /// `Pragma` applies only without `Cache-Control` (RFC 9111, section 5.4).
    let control: CacheControl

    init(_ query: CacheQuery, sharing: CacheSharing, _ digest: KeyedDigest) {
        (self.digest, key) = (digest, CacheKey.key(query, digest))
        (method, headerFields) = (query.request.method, query.request.headerFields)
        credentials = digest.credentials(of: headerFields)
        (hasBody, options, keepsCoding) = (query.request.body != nil, query.options, query.keepsCoding)
        (now, self.sharing) = (query.clock.date.cacheSeconds, sharing)
        control = CacheControl(
            headerFields, field: headerFields.contains("Cache-Control") ? "Cache-Control" : "Pragma")
    }
}

enum CacheDecision: Sendable, Equatable {
    enum Form: Sendable, Equatable {
        case whole
        case part(Range<Int64>)
        case storedPart
        case notModified
        case unsatisfiable
    }

    /// If `isRefreshing`, the stored response is stale, and the cache validates it in the background.
    case serve(Int, Form, isRefreshing: Bool)
    case validate(Int, Form, CacheStatus.Forward)
    case complete(Int)
    case forward(CacheStatus.Forward)
    case bypass
    case unavailable
}

extension CacheDecision {
    var answers: Bool {
        switch self {
        case .serve, .unavailable: true
        case .validate, .complete, .forward, .bypass: false
        }
    }

    /// `stored` has the oldest entry first.
    static func decide(_ question: CacheQuestion, _ stored: [StoredHead]) -> CacheDecision {
        let control = question.control
        let policy = question.options.policy
        let isOffline = question.isOffline
        if policy == .noStore || control.contains("no-store") { return isOffline ? .unavailable : .bypass }
        let hasPrecondition =
            question.headerFields.contains("If-Match") || question.headerFields.contains("If-Unmodified-Since")
        guard question.looksUp, !question.hasBody, !hasPrecondition else {
            return isOffline ? .unavailable : .forward(.method)
        }
        if policy == .reload { return .forward(.request) }
        guard !stored.isEmpty else { return isOffline ? .unavailable : .forward(.uriMiss) }
        // The most recent of several matching responses is used (RFC 9111, section 4). Within one second, the entry
        // stored later wins.
        var matching = stored.indices.filter { stored[$0].matches(question) }
        if matching.count > 1 {
            // A response to the request's own cookies is preferred to one without cookies.
            let own = matching.filter { stored[$0].isMeant(for: question) }
            if !own.isEmpty { matching = own }
            matching.sort { (stored[$0].responseTime, $0) > (stored[$1].responseTime, $1) }
        }
        guard !matching.isEmpty else { return isOffline ? .unavailable : .forward(.varyMiss) }
        for index in matching {
            guard let form = stored[index].form(for: question) else { continue }
            let decision = use(stored[index], index, form, question)
            guard isOffline else { return decision }
            // The cache starts no refresh, because the request may not use the network.
            if case .serve(_, let form, _) = decision { return .serve(index, form, isRefreshing: false) }
            return .unavailable
        }
        if isOffline { return .unavailable }
        let first = matching.first { stored[$0].canBeCompleted(for: question) }
        if let first, fitness(of: stored[first], question) == .fresh { return .complete(first) }
        return .forward(.partial)
    }

    private enum Fitness: Equatable { case fresh, staleAllowed, staleRefreshing, stale, unwanted }

    private static func use(
        _ head: StoredHead, _ index: Int, _ form: Form, _ question: CacheQuestion
    ) -> CacheDecision {
        switch fitness(of: head, question) {
        case .fresh, .staleAllowed: .serve(index, form, isRefreshing: false)
        case .staleRefreshing: .serve(index, form, isRefreshing: true)
        case .stale: .validate(index, form, .stale)
        case .unwanted: .validate(index, form, .request)
        }
    }

    private static func fitness(of head: StoredHead, _ question: CacheQuestion) -> Fitness {
        let (policy, control) = (question.options.policy, question.control)
        if policy == .preferCache || policy == .onlyCache { return .fresh }
        let freshness = head.freshness(question.sharing)
        // `preferCache` and `onlyCache` ignore `no-cache`. With any other policy, a response with `no-cache` needs
        // validation (RFC 9111, section 5.2.2.4).
        if head.isInvalid || freshness.control.isUnqualified("no-cache") { return .stale }
        let known = freshness.timeToLive(at: question.now)
        // The policy `revalidate` does not apply to a fresh `immutable` response (RFC 8246, section 2).
        if policy == .revalidate, freshness.control.contains("immutable"), known ?? 0 > 0, !question.options.isRefresh {
            return .fresh
        }
        if policy == .revalidate || control.contains("no-cache") { return .unwanted }
        guard let timeToLive = known else { return .stale }
        let age = freshness.lifetime - timeToLive
        let isLimited = control.contains("max-age") || question.options.maxAge != nil
        let isWanted =
            switch (control.seconds("max-age"), control.seconds("min-fresh")) {
            case (.invalid, _), (_, .invalid): false
            // `max-age` of the request (RFC 9111, section 5.2.1.1). Zero has the same meaning as `no-cache`.
            case (let most, let least):
                most.value.map { $0 > 0 && age <= $0 } ?? true && timeToLive >= least.value ?? .min
            }
        let isYoung = question.options.maxAge.map { $0 != .zero && age <= $0.components.seconds } ?? true
        guard isWanted, isYoung else { return timeToLive > 0 ? .unwanted : .stale }
        if timeToLive > 0 { return .fresh }
        guard freshness.allowsStale(question.sharing) else { return .stale }
        if let most = question.mostStaleness, -timeToLive <= most { return .staleAllowed }
        if !isLimited, !control.contains("min-fresh"),
            case .value(let window) = freshness.control.seconds("stale-while-revalidate"), -timeToLive < window
        {
            return .staleRefreshing
        }
        return .stale
    }
}

extension CacheQuestion {
    var looksUp: Bool { method == .get || method == .head }

    func refusal(_ statusCode: Int, _ headerFields: HeaderFields) -> CacheRules.Refusal? {
        CacheRules.refusal(statusCode, headerFields, to: self.headerFields, sharing)
    }

    /// Whether the request may not use the network.
    var isOffline: Bool { options.policy == .onlyCache || control.contains("only-if-cached") }

    /// RFC 9111, section 5.2.1.2.
    fileprivate var mostStaleness: Int64? {
        let option = options.maxStaleness.map(\.components.seconds)
        guard control.contains("max-stale") else { return option }
        if control.directives.contains(where: { $0.name == "max-stale" && ($0.argument ?? "").isEmpty }) { return .max }
        return control.seconds("max-stale").value.map { max($0, option ?? 0) } ?? option
    }
}

extension Freshness {
    /// Whether the response may be served stale (RFC 9111, section 4.2.4).
    func allowsStale(_ sharing: CacheSharing) -> Bool {
        if control.contains("must-revalidate") || control.isUnqualified("no-cache") { return false }
        return !sharing.isShared || !control.contains("proxy-revalidate") && !control.contains("s-maxage")
    }
}

extension StoredHead {
    func matches(_ question: CacheQuestion) -> Bool {
        if !vary.fields.isEmpty,
            !vary.matches(question.headerFields, contentLanguage: headerFields["Content-Language"], question.digest)
        {
            return false
        }
        guard coding == .none || (coding == .raw) == question.keepsCoding || question.method == .head else {
            return false
        }
        // A response to a request without cookies also answers requests with cookies: unlike `Authorization`, the field
        // has no rule in RFC 9111, and most cookies do not change most responses.
        return isMeant(for: question)
            || question.headerFields.contains("Cookie") && !freshness(question.sharing).control.isUnqualified("private")
                && credentials == question.digest.credentials(of: question.headerFields, isWithoutCookie: true)
    }

    fileprivate func isMeant(for question: CacheQuestion) -> Bool {
        if credentials == question.credentials { return true }
        let control = freshness(question.sharing).control
        return control.contains("public") && !control.isUnqualified("private")
    }

    func form(for question: CacheQuestion) -> CacheDecision.Form? {
        if question.method == .head { return statusCode == 206 ? nil : .whole }
        if isComplete, statusCode != 206, isNotModified(question.headerFields) { return .notModified }
        guard let range = question.range, statusCode == 200 || statusCode == 206 else {
            return isComplete && statusCode != 206 ? .whole : nil
        }
        if statusCode == 206, question.headerFields["Range"] == requestedRange, !question.hasIfRange {
            return .storedPart
        }
        guard coding != .decoded, let totalBytes else { return nil }
        guard appliesRange(question.headerFields) else { return isComplete && statusCode == 200 ? .whole : nil }
        guard let wanted = range.positions(in: totalBytes) else { return isComplete ? .unsatisfiable : nil }
        return positions.lowerBound <= wanted.lowerBound && wanted.upperBound <= positions.upperBound
            ? .part(wanted) : nil
    }

    /// To complete the response, the cache reads the stored bytes into memory.
    static let mostBeginningBytes: Int64 = 1 << 20

    func canBeCompleted(for question: CacheQuestion) -> Bool {
        question.method == .get && !question.headerFields.contains("Range") && offset == 0 && bodyBytes > 0
            && !isComplete && bodyBytes <= Self.mostBeginningBytes && coding != .decoded && strongValidator != nil
            && (statusCode == 200 || statusCode == 206) && !question.hasCondition
    }

    /// Whether the request's own condition matches this response (RFC 9111, section 4.3.2).
    private func isNotModified(_ requestFields: HeaderFields) -> Bool {
        guard statusCode == 200, !requestFields.isEmpty else { return false }
        let tags = requestFields.listMembers(of: "If-None-Match")
        if !tags.isEmpty {
            if tags == ["*"] { return true }
            guard let entityTag else { return false }
            return tags.contains { EntityTag($0).matchesWeakly(entityTag) }
        }
        guard !requestFields.contains("If-None-Match"),
            let since = requestFields.seconds(of: "If-Modified-Since", at: responseTime)
        else { return false }
        let changed = ["Last-Modified", "Date"].lazy.compactMap { headerFields.seconds(of: $0, at: responseTime) }.first
        return changed ?? responseTime <= since
    }

    /// Whether `If-Range` allows the range to apply (RFC 9110, section 13.1.5).
    private func appliesRange(_ requestFields: HeaderFields) -> Bool {
        guard let condition = requestFields.values(of: "If-Range").first?.trimmingBlanks else { return true }
        return condition == strongValidator
    }
}

extension CacheQuestion {
    var range: ByteRange? { method == .get ? headerFields["Range"].flatMap(ByteRange.init) : nil }
    var hasIfRange: Bool { headerFields.contains("If-Range") }
    static let conditions = ["If-None-Match", "If-Modified-Since", "If-Range", "If-Match", "If-Unmodified-Since"]
    var hasCondition: Bool { !headerFields.isEmpty && Self.conditions.contains(where: headerFields.contains) }

    /// The cache adds no condition to a request with its own condition or range.
    func isSentUnchanged(for form: CacheDecision.Form) -> Bool { hasCondition || form != .whole }
}
