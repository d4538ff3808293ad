// Where an answer links to: the Link field, RFC 8288.
import Foundation

extension ResponseHead {
    /// What no honest server needs; resolving costs time.
    private static var maxLinkBytes: Int { 16 << 10 }

    /// Where the answer links to with a relation; nil when it has no such link, or one that is no URL.
    ///
    /// Resolved against ``url``. Links about something else (`anchor`) do not count; of several, the first does.
    ///
    /// - Parameter relation: the relation type, `next` for example; upper and lower case are the same.
    public func link(_ relation: String) -> URL? { link(relation, from: nil) }

    /// - Parameter base: where the answer came from, if it does not say so itself.
    func link(_ relation: String, from base: URL?) -> URL? {
        let relation = relation.lowercased()
        let link = headerFields.links.first { $0.relations.contains(relation) && $0.parameters["anchor"] == nil }
        guard let link, link.reference.utf8.count <= Self.maxLinkBytes else { return nil }
        return (url ?? base).map { link.reference.requestURL(at: $0) } ?? link.reference.requestURL
    }
}
