// A request: its method, URL, fields and body, and the decoding of its response.
import Foundation

/// A description of one HTTP request and of how its response is decoded to an `Output`.
///
/// Building a request opens no file and no connection. Each send of the request makes another ``RequestOperation``.
///
/// ```swift
/// let request = Request<User>.get("https://example.com/users/1")
///     .header("Accept-Language", "en")
///     .bearer(token)
///     .tagged("profile")
/// let user = try await manager.send(request).value
/// ```
///
/// A request that cannot be sent has a ``defect`` at once, and its operation fails with `.invalidRequest` and that
/// reason: CR, LF or NUL in a header field, a method that is not a token, an absolute URL that has no host or is
/// neither http nor https, or parameters that cannot be encoded.
///
/// ## Concurrency
/// `Sendable`, without shared state.
///
/// ## Topics
/// - ``init(method:url:decoding:)``
/// - ``defect``
public struct Request<Output: Sendable>: Sendable, CustomStringConvertible, CustomReflectable {
    /// The core, which copies of the request share until one is changed: requests are often copied, rarely changed.
    private(set) var sharedCore: CopyOnWrite<RequestCore>
    var decode: BodyDecoder<Output>
    /// Whether the caller's code makes the output.
    private var decodesByFunction = false

    /// Describes a request whose output is made by your function from a complete body.
    ///
    /// A relative URL is resolved against the manager's base URL (RFC 3986, section 5). An error that the function
    /// throws becomes `.decodingFailed`. It runs in order with the operation's callbacks, never on a transport's
    /// thread, and may block.
    public init(
        method: HTTPMethod = .get, url: some RequestURL,
        decoding: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> Output
    ) {
        self.init(method, url, byFunction: true) { body, head in try decoding(body.data, head) }
    }

    init(
        _ method: HTTPMethod, _ url: some RequestURL, byFunction: Bool = false, _ decode: @escaping BodyDecoder<Output>
    ) {
        sharedCore = CopyOnWrite(RequestCore(method: method, url: url.requestURL))
        (self.decode, decodesByFunction) = (decode, byFunction)
        if core.url == nil {
            let text = String(describing: url)
            // If the text cannot be parsed, it may contain a password anywhere before an at sign.
            core.defect = text.contains("@") ? "the text given is not a URL" : "\(text.debugDescription) is not a URL"
        }
    }

    init(core: RequestCore, byFunction: Bool = false, decode: @escaping BodyDecoder<Output>) {
        sharedCore = CopyOnWrite(core)
        self.decode = decode
        decodesByFunction = byFunction
    }

    var core: RequestCore {
        _read { yield sharedCore.value }
        _modify { yield &sharedCore.value }
    }

    /// Why this request can never be sent; nil for a valid one, even if only a manager completes its URL or its JSON.
    ///
    /// - Complexity: O(*n*) for *n* bytes of header fields.
    public var defect: String? { core.findDefect() }

    /// The request method.
    public var method: HTTPMethod { core.method }
    /// The URL, possibly relative, without the items of ``query(_:)``; nil when the given string was not a URL.
    public var url: URL? { core.url }
    /// The header fields.
    public var headerFields: HeaderFields { core.headerFields }
    /// The body, if it is in memory; JSON is encoded at each access with a plain `JSONEncoder`, and nil if that fails.
    public var body: Data? { if case .data(let data)? = core.encoded(by: nil).body { data } else { nil } }
    /// The tags, by which a manager finds the request.
    public var tags: Set<String> { core.tags }
    /// The queue priority.
    public var priority: Operation.QueuePriority { core.priority }

    /// If true, storing the request keeps alive only the caller's data, a decoder and a value to encode as JSON.
    var isValue: Bool { !decodesByFunction && core.isValue }

    /// Method and URL, without credentials.
    public var description: String { core.summary.description }
    /// A mirror of the description only, because a reflection of the properties would show secrets.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

/// An error that the function throws becomes part of `.decodingFailed`.
typealias BodyDecoder<Output> = @Sendable (_ body: ReceivedBody, _ head: ResponseHead) throws -> Output

typealias RefusalDecoder = @Sendable (_ body: ReceivedBody, _ head: ResponseHead) throws -> any Error

extension Request where Output == Void {
    /// Describes a request for status and header fields only, whose response body is received and discarded.
    public init(method: HTTPMethod, url: some RequestURL) {
        self = Request<Void>(method: method, url: url) { _, _ in }.ignoringBody()
    }

    /// A GET request whose response body is discarded.
    @_disfavoredOverload
    public static func get(_ url: some RequestURL) -> Self { Self(method: .get, url: url) }

    /// A DELETE request whose response body is discarded.
    @_disfavoredOverload
    public static func delete(_ url: some RequestURL) -> Self { Self(method: .delete, url: url) }

    /// A POST request whose response body is discarded; give it a body with ``body(_:contentType:)-(Data,_)``.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL) -> Self { Self(method: .post, url: url) }

    /// A POST request with a JSON body, whose response body is discarded.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { post(url).json(json) }

    /// A PUT request whose response body is discarded; give it a body with ``body(_:contentType:)-(Data,_)``.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL) -> Self { Self(method: .put, url: url) }

    /// A PUT request with a JSON body, whose response body is discarded.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body, whose response body is discarded.
    @_disfavoredOverload
    public static func patch(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}

/// For calls that name no output type, such as `manager.send(.get(url))`: otherwise the compiler would choose the
/// functions for `Void`, the only ones with a fixed output type, and the body would be discarded silently.
extension Request where Output == Data {
    /// A GET request for the raw body.
    public static func get(_ url: some RequestURL) -> Self { Self(method: .get, url: url) }

    /// A DELETE request for the raw body of its response.
    public static func delete(_ url: some RequestURL) -> Self { Self(method: .delete, url: url) }

    /// A POST request for the raw body of its response; give it a body with ``body(_:contentType:)-(Data,_)``.
    public static func post(_ url: some RequestURL) -> Self { Self(method: .post, url: url) }

    /// A POST request with a JSON body, for the raw body of its response.
    public static func post(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { post(url).json(json) }

    /// A PUT request for the raw body of its response; give it a body with ``body(_:contentType:)-(Data,_)``.
    public static func put(_ url: some RequestURL) -> Self { Self(method: .put, url: url) }

    /// A PUT request with a JSON body, for the raw body of its response.
    public static func put(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body, for the raw body of its response.
    public static func patch(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}
