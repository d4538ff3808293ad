// The links of a response: the Link field, RFC 8288.
import Foundation

extension ResponseHead {
    /// The maximum length of a link in bytes, because resolving long links is slow and real links are shorter.
    private static var maxLinkBytes: Int { 16 << 10 }

    /// The URL of the link with a relation; nil if the response has no such link, or if the link is not a URL.
    ///
    /// The link is resolved against ``url``. Links with an `anchor`, which describe another resource, do not count. Of
    /// several links, the first is used.
    ///
    /// - Parameter relation: the relation type, for example `next`, in upper or lower case.
    public func link(_ relation: String) -> URL? { link(relation, from: nil) }

    /// - Parameter base: the URL of the response, if the response does not contain it.
    func link(_ relation: String, from base: URL?) -> URL? {
        let relation = relation.lowercased()
        let link = headerFields.links.first { $0.relations.contains(relation) && $0.parameters["anchor"] == nil }
        guard let link, link.reference.utf8.count <= Self.maxLinkBytes else { return nil }
        return (url ?? base).map { link.reference.requestURL(at: $0) } ?? link.reference.requestURL
    }
}
