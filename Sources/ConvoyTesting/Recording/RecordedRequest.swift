import Convoy
import Foundation

/// A request as a ``TestServer`` received it.
///
/// ```swift
/// let request = try await server.takeRequest()
/// #expect(request.method == "GET")
/// #expect(request.value(of: "range") == "bytes=100-")
/// #expect(request.connectionNumber == 1)
/// ```
///
/// ## Concurrency
/// An immutable value, for any thread.
///
/// ## Topics
/// - ``method``
/// - ``target``
/// - ``headerFields``
/// - ``body``
public struct RecordedRequest: Sendable {
    /// The method, as sent.
    public let method: String
    /// The request target as sent: usually a path and a query, or an absolute URL for a proxy.
    public let target: String
    /// The header fields in order.
    ///
    /// Invalid UTF-8 is replaced, see ``headerBytes``.
    public let headerFields: [(name: String, value: String)]
    /// The request line and the header section as bytes, including the final empty line.
    public let headerBytes: Data
    /// The number of the connection that the server accepted; the first is 1.
    public let connectionNumber: Int
    /// The number of the request on its connection; the first is 1.
    ///
    /// More than 1 means that the connection was reused.
    public let numberOnConnection: Int
    /// The body without its framing, truncated at the `bodyLimitBytes` of the server.
    ///
    /// The body is empty for a handler that runs before the body is read.
    public internal(set) var body = Data()
    /// The number of received body bytes, including those that ``body`` omits.
    public internal(set) var bodyByteCount: Int64 = 0
    /// The FNV-1a hash (64 bits) of all body bytes, including those that ``body`` omits; see ``digest(of:)``.
    public internal(set) var bodyDigest: UInt64 = BodyRecorder.emptyDigest
    /// Whether the end of the body was received.
    ///
    /// The value is false if the client or a step of the reply ended the connection, or if the body was not read.
    public internal(set) var isBodyComplete = false
    /// The fields after the last chunk of a chunked body.
    public internal(set) var trailerFields: [(name: String, value: String)] = []

    let isHTTP10: Bool

    /// Whether ``body`` was truncated at the `bodyLimitBytes` of the server.
    public var isBodyCut: Bool { Int64(body.count) < bodyByteCount }

    /// The target before the question mark, without scheme and host, with percent escapes.
    public var path: String { String(Self.originForm(of: target).prefix { $0 != "?" }) }

    /// The target after the first question mark, with percent escapes; nil without one.
    public var query: String? { target.firstIndex(of: "?").map { String(target[target.index(after: $0)...]) } }

    /// The body as text.
    ///
    /// Invalid UTF-8 is replaced.
    public var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// The value of the first field with the given name, compared without case; nil if there is none.
    ///
    /// - Parameter name: a field name.
    /// - Complexity: O(*n*) for *n* fields.
    public func value(of name: String) -> String? { headerFields.first { $0.name.equalsIgnoringCase(name) }?.value }

    /// The values of all fields with the given name, compared without case, in order.
    ///
    /// - Parameter name: a field name.
    /// - Complexity: O(*n*) for *n* fields.
    public func values(of name: String) -> [String] {
        headerFields.filter { $0.name.equalsIgnoringCase(name) }.map(\.value)
    }

    /// The value of ``bodyDigest`` for a body with these bytes.
    ///
    /// - Parameter bytes: a complete body.
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

/// Which requests a ``TestServer`` stores for ``TestServer/takeRequest(within:)``.
public enum RequestRecording: Sendable, Hashable {
    /// Every request, until ``TestServer/takeRequest(within:)`` returns it.
    case all
    /// The newest requests, up to a number.
    ///
    /// Older requests are discarded.
    case last(Int)
    /// No request is stored, but requests are still counted.
    ///
    /// Use this case for benchmarks.
    case none
}
