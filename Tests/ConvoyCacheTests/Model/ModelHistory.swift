// Random histories of a client, a clock and an origin, as values.

/// What an origin says of a response's freshness and identity.
struct ModelFields: Sendable, Equatable {
    var maxAge: Int?
    var noStore = false
    var noCache = false
    var mustRevalidate = false
    var isPublic = false
    var isPrivate = false
    var staleWhileRevalidate: Int?
    var staleIfError: Int?
    /// Relative to the origin's date; nil for none.
    var expires: Int?
    var expiresIsInvalid = false
    /// How far the origin's clock is ahead; nil for no `Date`.
    var clockSkew: Int?
    var age: Int?
    var hasTag = false
    var tagIsWeak = false
    var hasDate = false
    /// Names of varying request fields; `*` for all.
    var vary: Set<String> = []

    var hasControl: Bool {
        maxAge != nil || noStore || noCache || mustRevalidate || isPublic || isPrivate || staleWhileRevalidate != nil
            || staleIfError != nil
    }
}

/// One step of a history.
struct ModelStep: Sendable {
    enum Demand: Sendable, Equatable {
        case none
        case noCache
        case noStore
        case maxAge(Int)
        case maxStale(Int?)
        case minFresh(Int)
        case onlyIfCached
    }

    /// How far the clock goes before it; backwards too.
    var elapsed: Int
    var method: String
    var target: Int
    var demand: Demand
    var language: Int?
    var token: Int?
    /// What the origin would answer.
    var status: Int
    var fields: ModelFields
    /// Whether the representation has changed since the step before.
    var changes: Bool
    var isUnreachable: Bool
    /// Picks among spellings that mean the same.
    var spelling: Int
}

extension ModelStep {
    static func random(using random: inout SeededGenerator) -> ModelStep {
        func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
        func seconds() -> Int { [0, 1, 3, 10, 30, 100].randomElement(using: &random) ?? 0 }
        var fields = ModelFields()
        if chance(60) { fields.maxAge = seconds() }
        fields.noStore = chance(6)
        fields.noCache = chance(8)
        fields.mustRevalidate = chance(10)
        fields.isPublic = chance(15)
        fields.isPrivate = chance(10)
        if chance(15) { fields.staleWhileRevalidate = seconds() }
        if chance(15) { fields.staleIfError = seconds() }
        if chance(25) { fields.expires = seconds() - 5 }
        fields.expiresIsInvalid = chance(4)
        if chance(80) { fields.clockSkew = chance(80) ? 0 : seconds() - 15 }
        if chance(15) { fields.age = seconds() }
        fields.hasTag = chance(50)
        fields.tagIsWeak = chance(30)
        fields.hasDate = chance(40)
        if chance(25) { fields.vary.insert("x-language") }
        if chance(3) { fields.vary.insert("*") }
        let demands: [Demand] = [
            .noCache, .noStore, .maxAge(seconds()), .maxStale(nil), .maxStale(seconds()), .minFresh(seconds()),
            .onlyIfCached,
        ]
        let methods = ["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "DELETE"]
        let statuses = [200, 200, 200, 200, 200, 201, 203, 204, 302, 404, 410, 500, 503, 599]
        return ModelStep(
            elapsed: chance(4) ? -seconds() : seconds() + 1, method: methods.randomElement(using: &random) ?? "GET",
            target: Int.random(in: 0..<2, using: &random),
            demand: chance(25) ? demands.randomElement(using: &random) ?? .none : .none,
            language: chance(50) ? Int.random(in: 0..<2, using: &random) : nil,
            token: chance(20) ? Int.random(in: 0..<2, using: &random) : nil,
            status: statuses.randomElement(using: &random) ?? 200, fields: fields, changes: chance(30),
            isUnreachable: chance(8), spelling: Int.random(in: 0..<8, using: &random))
    }
}

/// What a client sees of a step, and the origin.
struct ModelOutcome: Equatable, Sendable, CustomStringConvertible {
    /// What was sent to the origin, in order: whether each had a condition.
    var sent: [Bool] = []
    /// The status the client got; nil for an error.
    var status: Int?
    /// The step whose body it got; nil for none.
    var body: Int?

    var description: String { "sent \(sent), status \(status ?? 0), body \(body ?? -1)" }
}
