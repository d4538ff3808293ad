import Convoy
import Foundation

/// A request as it came over the wire to a ``TestServer``.
///
/// ```swift
/// let request = try await server.takeRequest()
/// #expect(request.method == "GET")
/// #expect(request.value(of: "range") == "bytes=100-")
/// #expect(request.connectionNumber == 1)
/// ```
///
/// ## Concurrency
/// A value: it does not change any more and may be sent across threads freely.
///
/// ## Topics
/// - ``method``
/// - ``target``
/// - ``headerFields``
/// - ``body``
public struct RecordedRequest: Sendable {
    /// The method, as sent.
    public let method: String
    /// The request target, as sent: usually a path and a query, a whole URL if the server is used as a proxy.
    public let target: String
    /// The header fields in the order they came; bytes that are no UTF-8 are replaced, see ``headerBytes``.
    public let headerFields: [(name: String, value: String)]
    /// The request line and the header section, byte for byte, with the empty line at the end.
    public let headerBytes: Data
    /// Which accepted connection of the server brought it; the first is 1.
    public let connectionNumber: Int
    /// Which request on its connection it was; the first is 1.
    ///
    /// More than 1 means that the connection was used again.
    public let numberOnConnection: Int
    /// The body without its framing, cut at the limit of the server; empty for a handler that runs before the body is read.
    public internal(set) var body = Data()
    /// How many bytes of body came in all, those beyond the limit counted.
    public internal(set) var bodyByteCount: Int64 = 0
    /// The FNV-1a hash (64 bits) of every byte of the body, those beyond the limit included; see ``digest(of:)``.
    public internal(set) var bodyDigest: UInt64 = BodyRecorder.emptyDigest
    /// Whether the end of the body came; `false` if the client or the script broke off or the body was not read.
    public internal(set) var isBodyComplete = false
    /// The fields after the last chunk of a chunked body.
    public internal(set) var trailerFields: [(name: String, value: String)] = []

    let isHTTP10: Bool

    /// Whether ``body`` lacks bytes that came, because they were more than the limit.
    public var isBodyCut: Bool { Int64(body.count) < bodyByteCount }

    /// The part of the target before the question mark, percent escapes kept, without scheme and host.
    public var path: String { String(Self.originForm(of: target).prefix { $0 != "?" }) }

    /// The part of the target after the first question mark, percent escapes kept; `nil` without one.
    public var query: String? {
        target.firstIndex(of: "?").map { String(target[target.index(after: $0)...]) }
    }

    /// The body as text; bytes that are no UTF-8 are replaced.
    public var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// The value of the first field of that name, in any case; `nil` if there is none.
    ///
    /// - Parameter name: a field name.
    /// - Complexity: O(*n*) for *n* fields.
    public func value(of name: String) -> String? {
        headerFields.first { $0.name.equalsIgnoringCase(name) }?.value
    }

    /// The values of all fields of that name, in any case, in order.
    ///
    /// - Parameter name: a field name.
    /// - Complexity: O(*n*) for *n* fields.
    public func values(of name: String) -> [String] {
        headerFields.filter { $0.name.equalsIgnoringCase(name) }.map(\.value)
    }

    /// The digest that ``bodyDigest`` has for a body with these bytes.
    ///
    /// - Parameter bytes: a whole body.
    /// - Complexity: O(*n*) for *n* bytes.
    public static func digest(of bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(BodyRecorder.emptyDigest) { ($0 ^ UInt64($1)) &* BodyRecorder.prime }
    }

    private static func originForm(of target: String) -> Substring {
        guard !target.hasPrefix("/"), let scheme = target.range(of: "://") else { return target[...] }
        let rest = target[scheme.upperBound...]
        return rest.firstIndex { $0 == "/" || $0 == "?" }.map { rest[$0...] } ?? "/"
    }
}

/// Which requests a ``TestServer`` keeps for ``TestServer/takeRequest(within:)``.
public enum RequestRecording: Sendable, Hashable {
    /// Every request, until it is taken.
    case all
    /// The newest ones up to a number; older ones that were not taken are forgotten.
    case last(Int)
    /// None; counts still go on. For benchmarks.
    case none
}
