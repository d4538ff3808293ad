// Models RFC 9111 for a private cache. The model reads no header fields.

/// Decides the behaviour of a cache in a history.
///
/// The model shares no code with the cache. It uses values in place of header fields, and searches a list. Where the
/// standard leaves a choice, the model follows the documentation of the cache.
struct ReferenceModel {
    struct Kept {
        var fields: ModelFields
        var status: Int
        var body: Int
        var version: Int
        var target: Int
        /// The date of the response, on the cache's clock.
        var date: Int
        var modified: Int?
        var requested: Int
        var received: Int
        var language: Int?
        var variesByLanguage = false
        var token: Int?
        var isDoubted = false
        /// Whether an update forbids storing the response.
        var isForbidden = false
    }

    private var kept: [Kept] = []
    private var now: Int
    private var versions = [0, 0]
    private var changed: [Int]

    init(now: Int) { (self.now, changed) = (now, [now - 1000, now - 1000]) }

    /// The version of the representation and the time of its last change.
    func version(_ target: Int) -> (number: Int, changed: Int) { (versions[target], changed[target]) }

    mutating func play(_ number: Int, _ step: ModelStep) -> ModelOutcome {
        kept.removeAll(where: \.isForbidden)
        now += step.elapsed
        if step.changes {
            versions[step.target] += 1
            changed[step.target] += 100
        }
        if step.demand == .noStore { return pass(number, step) }
        if step.method == "GET" || step.method == "HEAD" { return read(number, step) }
        if step.demand == .onlyIfCached { return ModelOutcome(status: 504) }
        return pass(number, step)
    }

    // MARK: Section 4: constructing responses

    private mutating func read(_ number: Int, _ step: ModelStep) -> ModelOutcome {
        let fitting = kept.indices.filter { fits(kept[$0], step) }
        // Of the responses from the latest second, the model uses the one that was stored last.
        guard let choice = fitting.max(by: { (kept[$0].received, $0) < (kept[$1].received, $1) }) else {
            return step.demand == .onlyIfCached ? ModelOutcome(status: 504) : pass(number, step)
        }
        if mayUse(kept[choice], step) || isRefreshed(kept[choice], step) {
            let isHead = step.method == "HEAD"
            return ModelOutcome(status: kept[choice].status, body: isHead ? nil : bodied(kept[choice]))
        }
        if step.demand == .onlyIfCached { return ModelOutcome(status: 504) }
        return validate(choice, number, step)
    }

    private func bodied(_ response: Kept) -> Int? { response.status == 204 ? nil : response.body }

    /// Whether a stored response matches a request: RFC 9111, section 4.1, and the documented rule for credentials.
    private func fits(_ response: Kept, _ step: ModelStep) -> Bool {
        response.target == step.target && (!response.variesByLanguage || response.language == step.language)
            && (response.token == step.token || response.fields.isPublic && !response.fields.isPrivate)
    }

    /// The freshness lifetime: RFC 9111, section 4.2.1.
    private func lifetime(_ response: Kept) -> Int {
        let fields = response.fields
        if let maxAge = fields.maxAge { return maxAge }
        if fields.expiresIsInvalid { return 0 }
        if let expires = fields.expires { return max(0, expires) }
        let byStatus = [200, 203, 204, 404, 410].contains(response.status)
        guard byStatus || fields.isPublic, let modified = response.modified else { return 0 }
        return min(86_400, max(0, (response.date - modified) / 10))
    }

    /// The current age: RFC 9111, section 4.2.3.
    ///
    /// Nil if the clock was set back.
    private func age(_ response: Kept) -> Int? {
        guard now >= response.received - 5 else { return nil }
        let apparent = max(0, response.received - response.date)
        let corrected = (response.fields.age ?? 0) + response.received - response.requested
        return max(apparent, corrected) + max(0, now - response.received)
    }

    private func mayUse(_ response: Kept, _ step: ModelStep) -> Bool {
        guard !response.isDoubted, !response.fields.noCache, step.demand != .noCache, let age = age(response) else {
            return false
        }
        let left = lifetime(response) - age
        switch step.demand {
        case .maxAge(let most): return left > 0 && most > 0 && age <= most
        case .minFresh(let least): return left > 0 && left >= least
        case .maxStale(let most): return left > 0 || !response.fields.mustRevalidate && -left <= most ?? .max
        case .none, .onlyIfCached: return left > 0
        case .noCache, .noStore: return false
        }
    }

    /// Whether a stale response may be used while it is refreshed: RFC 5861, section 3.
    private func isRefreshed(_ response: Kept, _ step: ModelStep) -> Bool {
        switch step.demand {
        case .maxAge, .minFresh, .noCache, .noStore: return false
        case .none, .maxStale, .onlyIfCached: break
        }
        guard let window = response.fields.staleWhileRevalidate, !response.isDoubted, !response.fields.noCache,
            !response.fields.mustRevalidate, let age = age(response)
        else { return false }
        return age - lifetime(response) < window
    }

    // MARK: Section 4.3: validation

    private mutating func validate(_ choice: Int, _ number: Int, _ step: ModelStep) -> ModelOutcome {
        let response = kept[choice]
        let isConditional = response.fields.hasTag || response.modified != nil
        if step.isUnreachable {
            guard mayUseOnError(response, step, unsaid: 86_400) else { return ModelOutcome(sent: [isConditional]) }
            return ModelOutcome(
                sent: [isConditional], status: response.status,
                body: step.method == "HEAD" ? nil : bodied(response))
        }
        let isSame = isConditional && response.version == versions[step.target]
        guard isSame else {
            if [500, 503].contains(step.status), mayUseOnError(response, step, unsaid: nil) {
                return ModelOutcome(
                    sent: [isConditional], status: response.status,
                    body: step.method == "HEAD" ? nil : bodied(response))
            }
            return take(number, step, sent: [isConditional])
        }
        // RFC 9111, section 4.3.4: a validator other than the stored one does not confirm the stored response.
        guard confirms(step, response) else {
            kept.remove(at: choice)
            return take(number, step, sent: [true, false])
        }
        update(choice, step)
        return ModelOutcome(
            sent: [true], status: response.status, body: step.method == "HEAD" ? nil : bodied(response))
    }

    /// Whether a stale response may be used after an error: RFC 5861, section 4, and RFC 9111, section 4.2.4.
    private func mayUseOnError(_ response: Kept, _ step: ModelStep, unsaid: Int?) -> Bool {
        switch step.demand {
        case .maxAge, .minFresh, .noCache, .noStore: return false
        case .none, .maxStale, .onlyIfCached: break
        }
        guard !response.isDoubted, !response.fields.noCache, !response.fields.mustRevalidate, let age = age(response),
            let window = response.fields.staleIfError ?? unsaid
        else { return false }
        return age - lifetime(response) <= window
    }

    /// Whether a 304 or a response to HEAD, with the validators of the step, updates a stored response.
    private func confirms(_ step: ModelStep, _ response: Kept) -> Bool {
        let isSame = response.version == versions[step.target]
        if step.fields.hasTag { return response.fields.hasTag && isSame }
        if step.fields.hasDate { return response.modified == changed[step.target] }
        return true
    }

    /// Updates the fields of a stored response: RFC 9111, section 3.2.
    private mutating func update(_ choice: Int, _ step: ModelStep) {
        var fields = kept[choice].fields
        let new = step.fields
        if new.hasControl {
            (fields.maxAge, fields.noStore, fields.noCache) = (new.maxAge, new.noStore, new.noCache)
            (fields.mustRevalidate, fields.isPublic, fields.isPrivate) = (
                new.mustRevalidate, new.isPublic, new.isPrivate
            )
            (fields.staleWhileRevalidate, fields.staleIfError) = (new.staleWhileRevalidate, new.staleIfError)
        }
        fields.age = new.age
        kept[choice].token = step.token
        let date = now + (new.clockSkew ?? 0)
        if new.expiresIsInvalid {
            (fields.expiresIsInvalid, fields.expires) = (true, nil)
        } else if let expires = new.expires {
            (fields.expiresIsInvalid, fields.expires) = (false, expires)
        } else if let expires = fields.expires {
            // `Expires` is a point in time, so its distance changes with the date.
            fields.expires = expires + kept[choice].date - date
        }
        if new.hasDate { kept[choice].modified = changed[step.target] }
        if !new.vary.isEmpty {
            fields.vary = new.vary
            kept[choice].variesByLanguage = new.vary.contains("x-language")
            kept[choice].language = step.language
        }
        (kept[choice].fields, kept[choice].date) = (fields, date)
        (kept[choice].requested, kept[choice].received, kept[choice].isDoubted) = (now, now, false)
        kept[choice].isForbidden = !mayKeep(fields, kept[choice].status)
    }

    /// Whether a response may be stored: RFC 9111, section 3.
    private func mayKeep(_ fields: ModelFields, _ status: Int) -> Bool {
        let isMarked =
            fields.maxAge != nil || fields.expires != nil || fields.expiresIsInvalid || fields.isPublic
            || fields.isPrivate || [200, 203, 204, 404, 410].contains(status)
        return !fields.noStore && !fields.vary.contains("*") && isMarked
    }

    // MARK: Sections 3 and 4.4: storing and invalidating

    private mutating func pass(_ number: Int, _ step: ModelStep) -> ModelOutcome {
        if step.demand == .onlyIfCached { return ModelOutcome(status: 504) }
        return step.isUnreachable ? ModelOutcome(sent: [false]) : take(number, step, sent: [false])
    }

    /// Handles a complete response of the origin: it may be stored, and may invalidate stored responses.
    private mutating func take(_ number: Int, _ step: ModelStep, sent: [Bool]) -> ModelOutcome {
        let isBodiless = step.method == "HEAD" || step.status == 204
        let outcome = ModelOutcome(sent: sent, status: step.status, body: isBodiless ? nil : number)
        if step.method == "POST" || step.method == "DELETE" {
            if (200..<400).contains(step.status) { kept.removeAll { $0.target == step.target } }
            return outcome
        }
        if step.demand == .noStore { return outcome }
        if step.method == "HEAD" {
            if step.status == 200 { takeHead(step) }
            return outcome
        }
        let fields = step.fields
        guard mayKeep(fields, step.status) else {
            // The new response supersedes the stored ones, although it is not stored.
            if step.status < 500 { kept = kept.filter { !fits($0, step) } }
            return outcome
        }
        let varies = fields.vary.contains("x-language")
        kept = kept.filter { old in
            let isSameVariant =
                old.target == step.target && old.variesByLanguage == varies
                && (!varies || old.language == step.language) && old.token == step.token
            return !fits(old, step) && !isSameVariant
        }
        kept.append(
            Kept(
                fields: fields, status: step.status, body: number, version: versions[step.target],
                target: step.target, date: now + (fields.clockSkew ?? 0),
                modified: fields.hasDate ? changed[step.target] : nil, requested: now, received: now,
                language: step.language, variesByLanguage: varies, token: step.token))
        return outcome
    }

    /// Handles a response to HEAD: RFC 9111, section 4.3.5.
    private mutating func takeHead(_ step: ModelStep) {
        for index in kept.indices where fits(kept[index], step) {
            if kept[index].status == 200, confirms(step, kept[index]) {
                update(index, step)
            } else {
                kept[index].isDoubted = true
            }
        }
    }
}
