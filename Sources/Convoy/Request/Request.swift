// What to send, and how its answer becomes an output: a value.
import Foundation

/// A description of one HTTP request and of how its answer becomes an `Output`.
///
/// A value: building it sends nothing, holds no lock and opens nothing. The same request can be sent any number of
/// times; each sending is a ``RequestOperation``.
///
/// ```swift
/// let request = Request<User>.get("https://example.com/users/1")
///     .header("Accept-Language", "en")
///     .bearer(token)
///     .tagged("profile")
/// let user = try await manager.send(request).value
/// ```
///
/// A request that cannot be sent (CR, LF or NUL in a header field, a method that is no token, a URL without http or
/// https and a host, parameters that cannot be encoded) says so at once in ``defect``. Nothing of it is ever sent: its
/// operation finishes with `.invalidRequest` and that reason.
///
/// ## Concurrency
/// `Sendable`, without shared state.
///
/// ## Topics
/// - ``init(method:url:decoding:)``
/// - ``defect``
public struct Request<Output: Sendable>: Sendable {
    /// By reference: a request is handed on often, and changed while it is built.
    private(set) var sharedCore: CopyOnWrite<RequestCore>
    var decode: BodyDecoder<Output>
    /// What decodes alike has the same; nil for what is shared with no other request.
    var decodingIdentity: (any AnyObject & Sendable)?

    /// Describes a request whose body is turned into the output by a function of yours.
    ///
    /// - Parameters:
    ///   - method: the request method; `.get` by default.
    ///   - url: a URL or a string; a relative one is resolved against the manager's base URL (RFC 3986, section 5).
    ///   - decoding: makes the output of a complete body; what it throws becomes `.decodingFailed`.
    ///     Runs in the operation's own order, never on a transport's thread, and may take its time.
    public init(
        method: HTTPMethod = .get, url: some RequestURL,
        decoding: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> Output
    ) {
        self.init(method, url, DecodingIdentity()) { body, head in try decoding(body.data, head) }
    }

    init(
        _ method: HTTPMethod, _ url: some RequestURL, _ identity: any AnyObject & Sendable,
        _ decode: @escaping BodyDecoder<Output>
    ) {
        sharedCore = CopyOnWrite(RequestCore(method: method, url: url.requestURL))
        self.decode = decode
        decodingIdentity = identity
        if core.url == nil {
            let text = String(describing: url)
            // What cannot be taken apart may have a password anywhere before an at sign.
            core.defect = text.contains("@") ? "the text given is not a URL" : "\(text.debugDescription) is not a URL"
        }
    }

    init(
        core: RequestCore, identity: (any AnyObject & Sendable)? = nil, decode: @escaping BodyDecoder<Output>
    ) {
        sharedCore = CopyOnWrite(core)
        self.decode = decode
        decodingIdentity = identity
    }

    /// What does not depend on the output.
    var core: RequestCore {
        _read { yield sharedCore.value }
        _modify { yield &sharedCore.value }
    }

    /// Why this request can never be sent, or nil.
    ///
    /// A relative URL is no defect: a manager may have a base for it. Nor is JSON that has not been encoded yet: a manager may
    /// have an encoder for it.
    ///
    /// - Complexity: O(*n*) for *n* bytes of header fields.
    public var defect: String? { core.findDefect() }

    /// The request method.
    public var method: HTTPMethod { core.method }
    /// The URL, perhaps relative, without what ``query(_:)`` has added; nil when the string given was no URL.
    public var url: URL? { core.url }
    /// The header fields.
    public var headerFields: HeaderFields { core.headerFields }
    /// The body, if there is one in memory.
    ///
    /// JSON that waits for the encoder of a manager is encoded by a plain one for each look; nil when that cannot encode it.
    public var body: Data? { if case .data(let data)? = core.encoded(by: nil).body { data } else { nil } }
    /// The tags, by which a manager can find the request.
    public var tags: Set<String> { core.tags }
    /// The priority it is queued with.
    public var priority: Operation.QueuePriority { core.priority }
}

extension Request: CustomStringConvertible, CustomReflectable {
    /// Method and URL, without credentials.
    public var description: String { core.summary.description }
    /// The description only: a reflection would show what descriptions leave out.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

/// Turns what was received into an output; throws what `.decodingFailed` will carry.
typealias BodyDecoder<Output> = @Sendable (_ body: ReceivedBody, _ head: ResponseHead) throws -> Output

/// Makes the failure that the body of an answer with an unacceptable status tells; throws when it tells none.
typealias RefusalDecoder = @Sendable (_ body: ReceivedBody, _ head: ResponseHead) throws -> any Error

extension Request {
    /// Whether it has no code or object of the caller's, but decoders: keeping it keeps nothing else alive.
    var isValue: Bool {
        // A function of the caller's has an identity of its own.
        let decodesByFunction = decodingIdentity is DecodingIdentity && decodingIdentity !== DecodingIdentity.standard
        return !decodesByFunction && core.isValue
    }
}

extension RequestCore {
    fileprivate var isValue: Bool {
        switch destination {
        case .memory, .nowhere, .file: break
        case .segment, .stream, .chunks: return false
        }
        switch body {
        case nil, .data, .file, .json: break
        case .stream, .multipart: return false
        }
        guard let policies = policyBox?.policies else { return true }
        return policies.interceptors.isEmpty && policies.redirects?.onRedirect == nil && !policies.refusesByFunction
            && policies.userInfo.isEmpty
    }
}

/// What tells one way of decoding from another, unless a decoder object does.
///
/// A request keeps its own through all changes that leave its output alone.
final class DecodingIdentity: Sendable {
    /// That of ``Request/init(method:url:)`` and its family, which depends on the output's type alone.
    static let standard = DecodingIdentity()
}
