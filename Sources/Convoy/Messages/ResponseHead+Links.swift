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
        guard let reference = linkReference(relation), reference.utf8.count <= Self.maxLinkBytes else { return nil }
        let base = url ?? base
        // An empty reference is the resource itself (RFC 3986, section 4.4).
        if reference.isEmpty { return base }
        return base.map { reference.requestURL(at: $0) } ?? reference.requestURL
    }

    /// The text of the first link with a relation, which need not be a URL; nil without such a link.
    func linkReference(_ relation: String) -> String? {
        let relation = relation.lowercased()
        return headerFields.links.first { $0.relations.contains(relation) && $0.parameters["anchor"] == nil }?.reference
    }
}
