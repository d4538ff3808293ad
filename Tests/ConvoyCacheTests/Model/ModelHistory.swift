// Random histories of a client, a clock and an origin, as values.

/// The freshness fields and validators of an origin's response.
struct ModelFields: Sendable, Equatable {
    var maxAge: Int?
    var noStore = false
    var noCache = false
    var mustRevalidate = false
    var isPublic = false
    var isPrivate = false
    var staleWhileRevalidate: Int?
    var staleIfError: Int?
    /// The expiry, relative to the origin's date.
    ///
    /// Nil omits the field.
    var expires: Int?
    var expiresIsInvalid = false
    /// The seconds by which the origin's clock is ahead.
    ///
    /// Nil omits `Date`.
    var clockSkew: Int?
    var age: Int?
    var hasTag = false
    var tagIsWeak = false
    var hasDate = false
    /// The names in `Vary`; `*` means all.
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

    /// The seconds by which the clock moves before this step.
    ///
    /// A negative number sets the clock back.
    var elapsed: Int
    var method: String
    var target: Int
    var demand: Demand
    var language: Int?
    var token: Int?
    /// The status of the origin's response.
    var status: Int
    var fields: ModelFields
    /// Whether the representation has changed since the previous step.
    var changes: Bool
    var isUnreachable: Bool
    /// Selects how the origin and the client write header fields; each spelling has the same meaning.
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

/// The result of a step for a client and for the origin.
struct ModelOutcome: Equatable, Sendable, CustomStringConvertible {
    /// The requests that reached the origin, in order.
    ///
    /// An element says whether the request had a condition.
    var sent: [Bool] = []
    /// The status that the client received; nil for an error.
    var status: Int?
    /// The step whose body the client received; nil for none.
    var body: Int?

    var description: String { "sent \(sent), status \(status ?? 0), body \(body ?? -1)" }
}
