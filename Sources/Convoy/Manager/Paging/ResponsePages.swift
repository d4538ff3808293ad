// Pagination: responses one after the other, each telling the next request.
import Foundation

/// The pages of an answer that comes in several, as a sequence of responses.
///
/// Each page is fetched when it is asked for, and only then: a loop that is left early fetches no more. A loop whose task is
/// cancelled cancels the request under way. Every loop begins with the first page.
///
/// ```swift
/// let first = Request<[Item]>.get("https://example.com/items")
/// // Link: <...>; rel="next"
/// for try await page in manager.pages(first) { show(page.value) }
///
/// let search = Request<Page>.get("https://example.com/search")
/// let pages = manager.pages(search) { page in
///     page.value.cursor.map { search.query("cursor", $0) }
/// }
/// for try await page in pages { show(page.value.items) }
/// ```
///
/// A page that was fetched before ends the sequence with `.pageRepeated`: it would lead in a circle. A server that makes up
/// new pages for ever is bounded by `prefix(_:)`.
///
/// ## Concurrency
/// `Sendable`; any number of tasks may read, each its own pages.
public struct ResponsePages<Output: Sendable>: AsyncSequence, Sendable {
    /// The elements.
    public typealias Element = Response<Output>
    /// What reading throws.
    public typealias Failure = RequestError

    fileprivate let manager: RequestManager
    fileprivate let first: Request<Output>
    /// Makes the next request; nil after the last page.
    fileprivate let follow: @Sendable (Page) async throws(RequestError) -> Request<Output>?

    /// A page, the request as it was made, and where that was meant to go.
    fileprivate struct Page: Sendable {
        let response: Response<Output>
        let request: Request<Output>
        let prepared: PreparedRequest?
    }

    /// Makes an iterator, which begins with the first page.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Fetches the pages.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private enum Step {
            case first
            case after(Page)
            case ended
        }

        private let pages: ResponsePages
        private var step = Step.first
        private var fetched: Set<PageIdentity> = []

        fileprivate init(_ pages: ResponsePages) { self.pages = pages }

        /// Fetches the next page; nil after the last.
        ///
        /// - Throws: why it could not be fetched, once; `.pageRepeated` for one that was fetched before. Then nil.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(RequestError) -> Response<Output>? {
            let last = step
            step = .ended
            var request = pages.first
            switch last {
            case .first: break
            case .after(let page):
                guard let next = try await pages.follow(page) else { return nil }
                request = next
            case .ended: return nil
            }
            let defaults = pages.manager.scheduler.context.defaults
            request.core = request.core.encoded(by: defaults.encoder)
            // One that cannot be sent says so itself.
            let prepared = try? request.core.prepared(defaults)
            if let prepared, !fetched.insert(PageIdentity(prepared)).inserted {
                throw RequestError(
                    .pageRepeated, "nothing was sent: this page was fetched before, so that the pages lead in a circle",
                    summary: prepared.summary)
            }
            let response = try await pages.manager.send(request)
            step = .after(Page(response: response, request: request, prepared: prepared))
            return response
        }

        /// Fetches the next page; nil after the last.
        public mutating func next() async throws(RequestError) -> Response<Output>? { try await next(isolation: nil) }
    }
}

/// What tells a page from others, in 16 bytes: there may be very many.
private struct PageIdentity: Hashable {
    private let (first, second): (Int, Int)

    init(_ request: PreparedRequest) { (first, second) = (Self.hash(request, 1), Self.hash(request, 2)) }

    private static func hash(_ request: PreparedRequest, _ salt: Int) -> Int {
        var hasher = Hasher()
        hasher.combine(salt)
        hasher.combine(request)
        return hasher.finalize()
    }
}

extension RequestManager {
    /// The pages that begin with a request, each next one made from the response before it.
    ///
    /// - Parameters:
    ///   - first: the request of the first page.
    ///   - next: makes the request of the next page; nil after the last. Called when that page is asked for. What it throws
    ///     ends the sequence: a ``RequestError`` as it is, anything else as `.invalidRequest`.
    public func pages<Output>(
        _ first: Request<Output>, next: @escaping @Sendable (Response<Output>) async throws -> Request<Output>?
    ) -> ResponsePages<Output> {
        ResponsePages(manager: self, first: first) { page throws(RequestError) in
            do { return try await next(page.response) } catch let error as RequestError { throw error } catch {
                let isCancelled = error is CancellationError
                throw RequestError(
                    isCancelled ? .cancelled : .invalidRequest, "the next page could not be told: \(error)",
                    underlying: error)
            }
        }
    }

    /// The pages that begin with a request, each leading to the next by its `Link` field with the relation `next`
    /// (RFC 8288).
    ///
    /// The next page is asked for as the first was, by GET without a body (HEAD stays). A link to another origin gets none
    /// of what is secret: no secret header field of the request or the manager, nothing that authenticators know. A link from
    /// https to http ends the sequence with `.redirectRefused`, unless ``RedirectPolicy/allowsInsecure`` says otherwise.
    ///
    /// - Parameter first: the request of the first page.
    public func pages<Output>(_ first: Request<Output>) -> ResponsePages<Output> {
        let context = scheduler.context
        return ResponsePages(manager: self, first: first) { page throws(RequestError) in
            guard let link = page.response.head.link("next", from: page.response.request.url) else { return nil }
            let policy = page.request.core.policyBox?.policies.redirects ?? context.redirects
            if !policy.allowsInsecure, page.response.request.url.scheme?.lowercased() == "https",
                link.scheme?.lowercased() == "http"
            {
                throw RequestError(
                    .redirectRefused,
                    "the next page, \(link.shortened), leads from https to http, where it can be read and changed on the "
                        + "way", summary: page.response.request.summary, response: page.response.head)
            }
            return page.request.leading(to: link, after: page.response, page.prepared, context.defaults)
        }
    }
}

extension Request {
    /// The request as it goes to the next page.
    ///
    /// - Parameter prepared: where this one was meant to go.
    fileprivate func leading(
        to link: URL, after response: Response<Output>, _ prepared: PreparedRequest?, _ defaults: RequestDefaults
    ) -> Request {
        var target = URLReference(link.absoluteString)
        let given = prepared.map { URLReference($0.url.absoluteString) }
        target.dropUserInfo()
        target.fragment = nil
        var next = self
        // A server that a redirect has led to has no say in what is sent to the first one.
        let origins = Set([prepared?.hostKey, response.request.hostKey, try? link.origin.get()])
        if origins.count == 1 {
            target.takeUserInfo(of: given)
        } else {
            next.core.dropSecrets(defaults)
            next.core.policies.hasLeftOrigin = true
        }
        (next.core.url, next.core.query, next.core.body) = (target.url ?? link, [], nil)
        if next.core.method != .head { next.core.method = .get }
        next.core.headerFields.removeAll { field in
            let name = field.name.lowercased()
            return HeaderFields.bodyFields.contains(name) || Self.firstPageFields.contains(name)
        }
        return next
    }

    /// What is said of one resource: another page has other bytes and other validators.
    private static var firstPageFields: Set<String> {
        ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"]
    }
}
