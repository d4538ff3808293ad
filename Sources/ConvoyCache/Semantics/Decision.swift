// What answers a request: RFC 9111, section 4.
import Convoy
import Foundation

/// A request as the rules see it.
struct CacheQuestion: Sendable {
    var method: HTTPMethod
    var headerFields: HeaderFields
    var hasBody = false
    var options = CacheOptions()
    /// Whether the bytes are wanted as they are sent.
    var keepsCoding = false
    /// In seconds since 1970.
    var now: Int64
    var sharing = CacheSharing.private
    let digest: KeyedDigest

    /// What its fields say; `Pragma` counts where there is no `Cache-Control` (section 5.4).
    var control: CacheControl {
        let control = CacheControl(headerFields)
        return headerFields.contains("Cache-Control") ? control : CacheControl(headerFields, field: "Pragma")
    }

    init(_ query: CacheQuery, sharing: CacheSharing, _ digest: KeyedDigest) {
        self.digest = digest
        (method, headerFields) = (query.request.method, query.request.headerFields)
        (hasBody, options, keepsCoding) = (query.request.body != nil, query.options, query.keepsCoding)
        (now, self.sharing) = (query.clock.date.cacheSeconds, sharing)
    }
}

/// What becomes of a request.
enum CacheDecision: Sendable, Equatable {
    /// The part of a stored response that is the answer.
    enum Form: Sendable, Equatable {
        /// As it is stored.
        case whole
        /// These positions of the representation, as a 206.
        case part(Range<Int64>)
        /// The 206 as it is stored, to a request for the very same range.
        case storedPart
        /// A 304: what the request's own condition names is the stored response.
        case notModified
        /// A 416.
        case unsatisfiable
    }

    /// A stored response is the answer; refreshing: it is stale, and is validated in the background.
    case serve(Int, Form, isRefreshing: Bool)
    /// The stored response is stale or unwanted as it is: it is validated first.
    case validate(Int, Form, CacheStatus.Forward)
    /// The first bytes are stored, and the rest is asked for.
    case complete(Int)
    /// The request goes to the network; its answer may be stored.
    case forward(CacheStatus.Forward)
    /// The request goes to the network, and the cache takes no notice of the answer.
    case bypass
    /// The request may not go to the network, and nothing that is stored answers it: status 504.
    case unavailable
}

extension CacheDecision {
    /// Whether the request needs no network.
    var answers: Bool {
        switch self {
        case .serve, .unavailable: true
        case .validate, .complete, .forward, .bypass: false
        }
    }

    /// - Parameter stored: what is stored for the URL, in the order in which it was stored.
    static func decide(_ question: CacheQuestion, _ stored: [StoredHead]) -> CacheDecision {
        let control = question.control
        let policy = question.options.policy
        let isOffline = question.isOffline
        if policy == .noStore || control.contains("no-store") { return isOffline ? .unavailable : .bypass }
        let hasPrecondition =
            question.headerFields.contains("If-Match") || question.headerFields.contains("If-Unmodified-Since")
        guard [.get, .head].contains(question.method), !question.hasBody, !hasPrecondition else {
            return isOffline ? .unavailable : .forward(.method)
        }
        if policy == .reload { return .forward(.request) }
        guard !stored.isEmpty else { return isOffline ? .unavailable : .forward(.uriMiss) }
        // Of several that match the most recent is used (section 4); of those of one second, the one that was stored later.
        let matching = stored.indices.filter { stored[$0].matches(question) }
            .sorted { (stored[$0].responseTime, $0) > (stored[$1].responseTime, $1) }
        guard !matching.isEmpty else { return isOffline ? .unavailable : .forward(.varyMiss) }
        for index in matching {
            guard let form = stored[index].form(for: question) else { continue }
            let decision = use(stored[index], index, form, question, control)
            guard isOffline else { return decision }
            // A refresh would be a request.
            if case .serve(_, let form, _) = decision { return .serve(index, form, isRefreshing: false) }
            return .unavailable
        }
        if isOffline { return .unavailable }
        let first = matching.first { stored[$0].canBeCompleted(for: question) }
        if let first, fitness(of: stored[first], question, control) == .fresh { return .complete(first) }
        return .forward(.partial)
    }

    /// How a stored response may be used.
    private enum Fitness: Equatable { case fresh, staleAllowed, staleRefreshing, stale, unwanted }

    private static func use(
        _ head: StoredHead, _ index: Int, _ form: Form, _ question: CacheQuestion, _ control: CacheControl
    ) -> CacheDecision {
        switch fitness(of: head, question, control) {
        case .fresh, .staleAllowed: .serve(index, form, isRefreshing: false)
        case .staleRefreshing: .serve(index, form, isRefreshing: true)
        case .stale: .validate(index, form, .stale)
        case .unwanted: .validate(index, form, .request)
        }
    }

    private static func fitness(
        of head: StoredHead, _ question: CacheQuestion, _ control: CacheControl
    ) -> Fitness {
        let policy = question.options.policy
        if policy == .preferCache || policy == .onlyCache { return .fresh }
        let freshness = head.freshness(question.sharing)
        // Section 5.2.2.4: without validation never, whatever the request says.
        if head.isInvalid || freshness.control.isUnqualified("no-cache") { return .stale }
        let known = freshness.timeToLive(at: question.now)
        // RFC 8246, section 2: what does not change while it is fresh is not asked for because it is looked at again.
        if policy == .revalidate, freshness.control.contains("immutable"), known ?? 0 > 0, !question.options.isRefresh {
            return .fresh
        }
        if policy == .revalidate || control.contains("no-cache") { return .unwanted }
        guard let timeToLive = known else { return .stale }
        let age = freshness.lifetime - timeToLive
        let isLimited = control.contains("max-age") || question.options.maxAge != nil
        switch control.seconds("max-age") {
        // Section 5.2.1.1; 0 is meant as no-cache is.
        case .value(let most): if most == 0 || age > most { return timeToLive > 0 ? .unwanted : .stale }
        case .invalid: return timeToLive > 0 ? .unwanted : .stale
        case .absent: break
        }
        if let most = question.options.maxAge, age > most.components.seconds || most == .zero {
            return timeToLive > 0 ? .unwanted : .stale
        }
        switch control.seconds("min-fresh") {
        case .value(let least): if timeToLive < least { return timeToLive > 0 ? .unwanted : .stale }
        case .invalid: return timeToLive > 0 ? .unwanted : .stale
        case .absent: break
        }
        if timeToLive > 0 { return .fresh }
        guard freshness.allowsStale(question.sharing) else { return .stale }
        if let most = question.mostStaleness(control), -timeToLive <= most { return .staleAllowed }
        if !isLimited, !control.contains("min-fresh"),
            case .value(let window) = freshness.control.seconds("stale-while-revalidate"), -timeToLive < window
        {
            return .staleRefreshing
        }
        return .stale
    }
}

extension CacheQuestion {
    /// Whether it may not go to the network.
    var isOffline: Bool { options.policy == .onlyCache || control.contains("only-if-cached") }

    /// For how many seconds a response may have been stale (section 5.2.1.2); nil for none.
    func mostStaleness(_ control: CacheControl) -> Int64? {
        let option = options.maxStaleness.map(\.components.seconds)
        guard control.contains("max-stale") else { return option }
        if control.isUnqualified("max-stale") { return .max }
        return control.seconds("max-stale").value.map { max($0, option ?? 0) } ?? option
    }
}

extension Freshness {
    /// Whether the response may be used when it is stale (section 4.2.4).
    func allowsStale(_ sharing: CacheSharing) -> Bool {
        if control.contains("must-revalidate") || control.isUnqualified("no-cache") { return false }
        return !sharing.isShared || !control.contains("proxy-revalidate") && !control.contains("s-maxage")
    }

    /// For how many seconds after it has become stale it may be used in place of an error; nil where it does not say.
    var staleIfError: Int64? { control.seconds("stale-if-error").value }
}

extension StoredHead {
    /// Whether it is for requests such as this one: by `Vary`, by `Authorization` and by content coding.
    func matches(_ question: CacheQuestion) -> Bool {
        guard vary.matches(question.headerFields, contentLanguage: headerFields["Content-Language"], question.digest)
        else {
            return false
        }
        guard coding == .none || (coding == .raw) == question.keepsCoding || question.method == .head else {
            return false
        }
        // An answer to one credential is never served for another, unless it says that it is for all.
        return authorization == VaryKey.normalized("authorization", question.headerFields, question.digest)
            || freshness(question.sharing).control.contains("public")
    }

    /// The form in which it answers; nil where a part that is missing is asked for.
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

    /// How much of a response that was cut short is kept to be completed: it goes through memory at once.
    static let mostBeginningBytes: Int64 = 1 << 20

    /// Whether it is the beginning of what is asked for, and the rest can be put behind it.
    func canBeCompleted(for question: CacheQuestion) -> Bool {
        question.method == .get && !question.headerFields.contains("Range") && offset == 0 && bodyBytes > 0
            && !isComplete && bodyBytes <= Self.mostBeginningBytes && coding != .decoded && strongValidator != nil
            && (statusCode == 200 || statusCode == 206) && !question.hasCondition
    }

    /// Whether the request's own condition says that it has this response (section 4.3.2).
    private func isNotModified(_ requestFields: HeaderFields) -> Bool {
        guard statusCode == 200 else { return false }
        let tags = requestFields.listMembers(of: "If-None-Match")
        if !tags.isEmpty {
            if tags == ["*"] { return true }
            guard let entityTag else { return false }
            return tags.contains { EntityTag($0).matchesWeakly(entityTag) }
        }
        guard !requestFields.contains("If-None-Match"),
            let text = requestFields.values(of: "If-Modified-Since").first
        else { return false }
        let now = Date(timeIntervalSince1970: Double(responseTime))
        guard let since = HTTPDate(text.trimmingBlanks, now: now) else { return false }
        let changed =
            lastModified.flatMap { HTTPDate($0, now: now) }
            ?? headerFields.values(of: "Date").first.flatMap { HTTPDate($0.trimmingBlanks, now: now) }
        return (changed?.secondsSince1970 ?? responseTime) <= since.secondsSince1970
    }

    /// Whether `If-Range` lets the range count (RFC 9110, section 13.1.5).
    private func appliesRange(_ requestFields: HeaderFields) -> Bool {
        guard let condition = requestFields.values(of: "If-Range").first?.trimmingBlanks else { return true }
        return condition == strongValidator
    }
}

extension CacheQuestion {
    /// The one range that is asked for.
    var range: ByteRange? { method == .get ? headerFields["Range"].flatMap(ByteRange.init) : nil }
    var hasIfRange: Bool { headerFields.contains("If-Range") }
    /// Whether the request has a condition of its own.
    var hasCondition: Bool {
        ["If-None-Match", "If-Modified-Since", "If-Range", "If-Match", "If-Unmodified-Since"]
            .contains(where: headerFields.contains)
    }
}
