// Where the cookies of operations are kept, as they see it.
import Foundation

/// Names the cookies that a request carries, and takes those of its answer; a ``CookieJar``.
protocol CookieStorage: Sendable {
    /// The value of the `Cookie` field for a URL; nil when it has none.
    func cookieField(for url: URL) -> String?
    /// Takes the cookies of an answer from a URL.
    func store(_ fields: HeaderFields, from url: URL)
}
