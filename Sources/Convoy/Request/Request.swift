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
/// https and a host, a body that cannot be encoded) says so at once in ``defect``. Nothing of it is ever sent: its
/// operation finishes with `.invalidRequest` and that reason.
///
/// ## Concurrency
/// `Sendable`, without shared state.
///
/// ## Topics
/// - ``init(method:url:decoding:)``
/// - ``defect``
public struct Request<Output: Sendable>: Sendable {
    var core: RequestCore
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
        self.init(method, url, DecodingIdentity(), decoding)
    }

    init(
        _ method: HTTPMethod, _ url: some RequestURL, _ identity: any AnyObject & Sendable,
        _ decoding: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> Output
    ) {
        core = RequestCore(method: method, url: url.requestURL)
        decode = { body, head in try decoding(body.data, head) }
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
        self.core = core
        self.decode = decode
        decodingIdentity = identity
    }

    /// Why this request can never be sent, or nil.
    ///
    /// A relative URL is no defect: a manager may have a base for it.
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
    public var body: Data? { if case .data(let data)? = core.body { data } else { nil } }
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

/// What tells one way of decoding from another, unless a decoder object does.
///
/// A request keeps its own through all changes that leave its output alone.
final class DecodingIdentity: Sendable {
    /// That of ``Request/init(method:url:)`` and its family, which depends on the output's type alone.
    static let standard = DecodingIdentity()
}

/// Something a request can be addressed to: a `URL`, or a `String` that is one.
///
/// A string's characters that a URL may not contain are percent-encoded in UTF-8.
public protocol RequestURL {
    /// The URL, or nil when there is none to be made of it.
    var requestURL: URL? { get }
}

extension URL: RequestURL {
    /// The URL itself.
    public var requestURL: URL? { self }
}

extension String: RequestURL {
    /// The URL the string spells, with unsafe characters percent-encoded; nil when it cannot be one.
    public var requestURL: URL? {
        if let url = URL(string: self, encodingInvalidCharacters: false) { return url }
        // Foundation encodes the percent signs of escapes too, once anything has to be encoded.
        guard contains("%") else { return URL(string: self, encodingInvalidCharacters: true) }
        return URL(string: encodingUnsafe(), encodingInvalidCharacters: false)
    }

    /// The string with what no URL may contain percent-encoded in UTF-8; escapes that are there stay.
    private func encodingUnsafe() -> String {
        let bytes = Array(utf8)
        return bytes.indices.map { index -> String in
            let byte = bytes[index]
            let isEscape =
                byte == UInt8(ascii: "%") && bytes.dropFirst(index + 1).prefix(2).count(where: \.isHexDigit) == 2
            let scalar = Unicode.Scalar(byte)
            guard isEscape || (byte != UInt8(ascii: "%") && CharacterSet.urlCharacters.contains(scalar)) else {
                return "%" + String(byte >> 4, radix: 16, uppercase: true)
                    + String(byte & 15, radix: 16, uppercase: true)
            }
            return String(scalar)
        }.joined()
    }
}

extension CharacterSet {
    /// Reserved and unreserved characters (RFC 3986, sections 2.2 and 2.3).
    fileprivate static let urlCharacters = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=")
}

extension String {
    /// Whether this host has in escapes what no name of a host holds: loaders decode them, and would send it as it is in the
    /// `Host` field.
    ///
    /// Those are control characters, blanks, and what means something in a URL (the forbidden domain code points of the URL
    /// standard). An address of IPv6 may name its zone behind a percent sign.
    fileprivate var hidesDelimiters: Bool {
        guard utf8.contains(UInt8(ascii: "%")), !utf8.contains(UInt8(ascii: ":")) else { return false }
        guard let decoded = removingPercentEncoding else { return true }
        return decoded.utf8.contains { $0 <= 0x20 || $0 == 0x7F || "#%/:<>?@[\\]^|".utf8.contains($0) }
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool { Character(Unicode.Scalar(self)).isHexDigit }
}

/// The part of a request that does not depend on its output.
struct RequestCore: Sendable {
    var method: HTTPMethod
    var url: URL?
    var headerFields = HeaderFields()
    /// What the query of the URL gets behind it, encoded.
    var query: [String] = []
    var body: GivenBody?
    var tags: Set<String> = []
    var name: String?
    var priority = Operation.QueuePriority.normal
    var idleTimeout = Duration.seconds(60)
    var transferTimeout: Duration?
    /// How many bytes of body are accepted, wherever they go; nil where the caller has not said.
    var bodyLimit: Int64?
    /// How many bytes of body may be in memory at once.
    var maximumBodyBytes: Int64 { bodyLimit ?? 64 << 20 }
    var acceptableStatusCodes: StatusCheck = .successful
    var acceptableContentTypes: ContentTypeCheck = .any
    /// Whether the body of an answer with an unacceptable status is kept whole, to be decoded.
    var decodesRefusals = false
    var destination = BodyDestination.memory
    /// Boxed: a queued operation stays small.
    var policyBox: PolicyBox?
    /// Whether making the output takes no time and no code of the user's.
    var decodesAtOnce = false
    /// What went wrong while it was built: an encoding error, a string that is no URL.
    var defect: String?

    init(method: HTTPMethod, url: URL?) {
        self.method = method
        self.url = url
    }

    func findDefect() -> String? {
        if let defect = findDefectBesideURL() { return defect }
        guard let url, url.scheme != nil, case .failure(let defect) = url.origin else { return nil }
        return defect.reason
    }

    func findDefectBesideURL() -> String? {
        if let defect { return defect }
        if maximumBodyBytes < 0 { return "the body size limit is negative" }
        if let defect = policyBox?.policies.paceDefect { return defect }
        if let deadline = policyBox?.policies.deadline, deadline <= .zero { return "the deadline is not positive" }
        return Self.findDefect(
            method: method, headerFields: headerFields, hasBody: body != nil, idleTimeout: idleTimeout,
            transferTimeout: transferTimeout)
    }

    /// What makes a request one that cannot be sent, wherever it goes.
    static func findDefect(
        method: HTTPMethod, headerFields: HeaderFields, hasBody: Bool, idleTimeout: Duration,
        transferTimeout: Duration?
    ) -> String? {
        guard method.isToken else { return "the method \(method.rawValue.debugDescription) is not a token" }
        if let defect = headerFields.defect { return defect }
        if headerFields.count > 1, headerFields.values(of: "Host").count > 1 { return "there are two Host fields" }
        if !hasBody, headerFields.contains("Content-Length") || headerFields.contains("Transfer-Encoding") {
            return "Content-Length and Transfer-Encoding are set by the transport, and there is no body"
        }
        if method.rawValue.equalsIgnoringCase("HEAD"), hasBody { return "a HEAD request has no body" }
        if idleTimeout <= .zero { return "the idle timeout is not positive" }
        if let transferTimeout, transferTimeout <= .zero { return "the transfer timeout is not positive" }
        return nil
    }
}

extension URL {
    /// Why no request can go to a URL.
    struct Defect: Error {
        let reason: String
    }

    /// Scheme, host and port of this absolute URL in one spelling, or why no request can go there.
    var origin: Result<String, Defect> {
        guard let scheme = scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            return .failure(Defect(reason: "the URL \(redactedString) is neither http nor https"))
        }
        guard let host = host(percentEncoded: true)?.lowercased(), !host.isEmpty else {
            return .failure(Defect(reason: "the URL \(redactedString) has no host"))
        }
        guard !host.hidesDelimiters else {
            return .failure(Defect(reason: "the URL \(redactedString) has a host that is no name"))
        }
        // A port out of range reaches some loaders as another port; one beyond Int reads as none.
        let port = port ?? (hasPortText ? -1 : scheme == "https" ? 443 : 80)
        guard (0...65_535).contains(port) else {
            return .failure(Defect(reason: "the URL \(redactedString) has no valid port"))
        }
        return .success("\(scheme)://\(host):\(port)")
    }

    /// Whether a port is written in the authority, readable or not.
    private var hasPortText: Bool {
        let text = absoluteString
        guard let start = text.range(of: "//")?.upperBound else { return false }
        let authority = text[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let last = authority.lastIndex(where: { $0 == ":" || $0 == "]" || $0 == "@" }) else { return false }
        return authority[last] == ":" && authority.index(after: last) < authority.endIndex
    }

    /// The URL without user name and password, for people and logs.
    var redactedString: String {
        guard user(percentEncoded: true) != nil || password(percentEncoded: true) != nil,
            var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return absoluteString }
        components.user = nil
        components.password = nil
        return components.string ?? "<URL with credentials>"
    }
}
