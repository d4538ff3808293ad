// Pagination: each response determines the next request.
import Foundation

/// The pages of a paginated resource, as a sequence of responses, each fetched when the loop reads it.
///
/// Cancelling the task cancels the running request. Every loop starts with the first page.
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
/// A page that was fetched before would cause an endless loop, so it ends the sequence with `.pageRepeated`. Use
/// `prefix(_:)` to limit a server that returns new pages without end.
///
/// ## Concurrency
/// `Sendable`; any number of tasks may read, each its own pages.
public struct ResponsePages<Output: Sendable>: AsyncSequence, Sendable {
    /// The element type: the response of one page.
    public typealias Element = Response<Output>
    /// The error type of reading.
    public typealias Failure = RequestError

    fileprivate let manager: RequestManager
    fileprivate let first: Request<Output>
    /// Makes the next request from the response, the request and the prepared request of a page.
    fileprivate let follow:
        @Sendable (Response<Output>, Request<Output>, PreparedRequest?) async throws(RequestError) -> Request<Output>?

    /// Makes an iterator, which starts with the first page.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Fetches the pages.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let pages: ResponsePages
        /// Makes the next request; nil after the end.
        private var step: (@Sendable () async throws(RequestError) -> Request<Output>?)?
        /// The hash values of the requests, because there may be very many pages.
        private var fetched: Set<Int> = []

        fileprivate init(_ pages: ResponsePages) {
            self.pages = pages
            step = { () throws(RequestError) in pages.first }
        }

        /// Fetches the next page; nil after the last, and after an error.
        ///
        /// - Throws: the error of the request, or `.pageRepeated` for a page that was fetched before.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(RequestError) -> Response<Output>? {
            let makeRequest = step
            step = nil
            guard var request = try await makeRequest?() else { return nil }
            let defaults = pages.manager.scheduler.defaults
            request.core = request.core.encoded(by: defaults.encoder)
            // A request that cannot be prepared fails when it is sent.
            let prepared = try? request.core.prepared(defaults)
            if let prepared, !fetched.insert(prepared.hashValue).inserted {
                throw RequestError(
                    .pageRepeated, "nothing was sent: this page was fetched before, so the links form a circle",
                    summary: prepared.summary)
            }
            let response = try await pages.manager.send(request)
            step = { [pages, request] () throws(RequestError) in try await pages.follow(response, request, prepared) }
            return response
        }
    }
}

extension RequestManager {
    /// The pages of a resource, whose requests a function makes from the response before; nil after the last.
    ///
    /// It is called when that page is read. If it throws, the sequence ends with that ``RequestError``, with
    /// `.cancelled` for a `CancellationError`, or with `.invalidRequest` for any other error.
    public func pages<Output>(
        _ first: Request<Output>, next: @escaping @Sendable (Response<Output>) async throws -> Request<Output>?
    ) -> ResponsePages<Output> {
        ResponsePages(manager: self, first: first) { response, _, _ throws(RequestError) in
            do { return try await next(response) } catch let error as RequestError { throw error } catch {
                let isCancelled = error is CancellationError
                throw RequestError(
                    isCancelled ? .cancelled : .invalidRequest, "the next page could not be determined: \(error)",
                    underlying: error)
            }
        }
    }

    /// The pages of a resource that links each page to the next (`Link` with the relation `next`, RFC 8288).
    ///
    /// The next request is like the first, but a GET without a body, or a HEAD if the first was one. A link to another
    /// origin receives no secret: no secret header field of the request or the manager, and nothing from
    /// authenticators. A link from https to http ends the sequence with `.redirectRefused`, unless
    /// ``RedirectPolicy/allowsInsecure`` says otherwise, and a link that is no URL with `.badResponse`.
    public func pages<Output>(_ first: Request<Output>) -> ResponsePages<Output> {
        return ResponsePages(manager: self, first: first) {
            [scheduler] response, request, prepared throws(RequestError) in
            let head = response.head
            guard let link = head.link("next", from: response.request.url) else {
                guard head.linkReference("next") != nil else { return nil }
                throw RequestError(
                    .badResponse, "the link to the next page is not a URL of at most 16 KiB",
                    summary: response.request.summary, response: head)
            }
            let policy = request.core.policyBox?.policies.redirects ?? scheduler.redirects
            if !policy.allowsInsecure, response.request.url.scheme?.lowercased() == "https",
                link.scheme?.lowercased() == "http"
            {
                throw RequestError(
                    .redirectRefused,
                    "the next page, \(link.shortened), leads from https to http, where it can be read and changed on the "
                        + "way", summary: response.request.summary, response: response.head)
            }
            return request.leading(to: link, after: response, prepared, scheduler.defaults)
        }
    }
}

extension Request {
    fileprivate func leading(
        to link: URL, after response: Response<Output>, _ prepared: PreparedRequest?, _ defaults: RequestDefaults
    ) -> Request {
        var target = URLReference(link.absoluteString)
        let given = prepared.map { URLReference($0.url.absoluteString) }
        target.dropUserInfo()
        target.fragment = nil
        var next = self
        // A server that a redirect led to must not decide what is sent to the first server.
        let origins = Set([prepared?.hostKey, response.request.hostKey, try? link.origin.get()])
        if origins.count == 1 {
            target.takeUserInfo(of: given)
        } else {
            next.core.dropSecrets(defaults)
            next.core.policies.hasLeftOrigin = true
        }
        (next.core.url, next.core.query, next.core.body) = (target.url ?? link, [], nil)
        if next.core.method != .head { next.core.method = .get }
        // Another page has other bytes and other validators.
        let dropped = HeaderFields.bodyFields.union([
            "range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
        ])
        next.core.headerFields.removeAll { dropped.contains($0.name.lowercased()) }
        return next
    }
}
