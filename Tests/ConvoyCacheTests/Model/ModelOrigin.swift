// Writes the responses of a history's origin, with several spellings of one meaning.
import Convoy
import ConvoyTesting
import Foundation

@testable import ConvoyCache

extension ModelStep {
    /// The value of the request's `Cache-Control`.
    var control: String? {
        let text: String? =
            switch demand {
            case .none: nil
            case .noCache: "no-cache"
            case .noStore: "no-store"
            case .maxAge(let seconds): "max-age=\(seconds)"
            case .maxStale(let seconds): seconds.map { "max-stale=\($0)" } ?? "max-stale"
            case .minFresh(let seconds): "min-fresh=\(seconds)"
            case .onlyIfCached: "only-if-cached"
            }
        return text.map { spelling.isMultiple(of: 2) ? $0 : $0.uppercased() }
    }
}

extension CachePlayer.Origin {
    /// Responds to a request as the step describes.
    ///
    /// A condition that matches gets a 304.
    func answer(_ exchange: StubExchange) {
        guard let step else { return exchange.finish(RequestError(.connectionFailed, "there is no step")) }
        if step.isUnreachable { return exchange.finish(RequestError(.connectionFailed, "it is not reached")) }
        let fields = headerFields(step)
        let asked = exchange.request.headerFields
        let holds: Bool
        if let tags = asked["If-None-Match"] {
            holds = tags.hasSuffix("\"v\(version)\"")
        } else {
            holds = asked["If-Modified-Since"] == HTTPDateText.text(Int64(changed))
        }
        if holds {
            exchange.respond(ResponseHead(statusCode: 304, headerFields: fields, url: exchange.request.url))
            return exchange.finish()
        }
        let isBodiless = exchange.request.method == .head || step.status == 204
        let body = Data((isBodiless ? "" : "\(number) is the step").utf8)
        exchange.respond(
            ResponseHead(
                statusCode: step.status, headerFields: fields, url: exchange.request.url,
                expectedBytes: isBodiless ? nil : Int64(body.count)))
        if !body.isEmpty { exchange.send(body) }
        exchange.finish()
    }

    private func headerFields(_ step: ModelStep) -> HeaderFields {
        let said = step.fields
        var fields = HeaderFields()
        for control in controls(said, step.spelling) { fields.add("Cache-Control", control) }
        let date = Int64(now + (said.clockSkew ?? 0))
        if said.clockSkew != nil { fields.add("Date", HTTPDateText.text(date)) }
        if said.expiresIsInvalid {
            fields.add("Expires", step.spelling.isMultiple(of: 2) ? "0" : "yesterday")
        } else if let expires = said.expires {
            fields.add("Expires", HTTPDateText.text(date + Int64(expires)))
        }
        if let age = said.age { fields.add("Age", step.spelling < 4 ? "\(age)" : "00\(age), 999999") }
        if said.hasTag { fields.add("ETag", (said.tagIsWeak ? "W/" : "") + "\"v\(version)\"") }
        if said.hasDate { fields.add("Last-Modified", HTTPDateText.text(Int64(changed))) }
        for name in said.vary.sorted() { fields.add("vary", step.spelling < 4 ? name : name.uppercased()) }
        return fields
    }

    private func controls(_ said: ModelFields, _ spelling: Int) -> [String] {
        var directives: [String] = []
        if let seconds = said.maxAge {
            directives.append(spelling < 4 ? "max-age=\(seconds)" : "Max-Age=\"\(seconds)\"")
        }
        if said.noStore { directives.append("no-store") }
        if said.noCache { directives.append("No-Cache") }
        if said.mustRevalidate { directives.append("must-revalidate") }
        if said.isPublic { directives.append("public") }
        if said.isPrivate { directives.append("PRIVATE") }
        if let seconds = said.staleWhileRevalidate { directives.append("stale-while-revalidate=\(seconds)") }
        if let seconds = said.staleIfError { directives.append("stale-if-error=\(seconds)") }
        guard !directives.isEmpty else { return [] }
        directives.append("extension=\"no-store, max-age=7, no-cache\"")
        return spelling.isMultiple(of: 2) ? [directives.joined(separator: ", ")] : directives.reversed()
    }
}
