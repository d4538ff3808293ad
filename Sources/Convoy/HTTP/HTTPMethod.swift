// Request methods: RFC 9110, section 9.

/// A request method, compared by its exact, case-sensitive name (RFC 9110, section 9.1): any token, as in
/// `HTTPMethod("PURGE")`; another name makes its request invalid.
public struct HTTPMethod: RawRepresentable, ExpressibleByStringLiteral, Hashable, Sendable, CustomStringConvertible {
    /// The method as it is sent.
    public let rawValue: String

    /// Makes a method from its name; the name is checked when it is used in a request.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Makes a method from its name; the name is checked when it is used in a request.
    public init(_ name: String) { self.rawValue = name }
    /// Makes a method from a literal; the name is checked when it is used in a request.
    public init(stringLiteral value: String) { self.rawValue = value }

    /// Retrieves the target resource.
    public static let get = HTTPMethod("GET")
    /// Like ``get``, but the response has no body.
    public static let head = HTTPMethod("HEAD")
    /// Lets the target resource process the body.
    public static let post = HTTPMethod("POST")
    /// Replaces the target resource with the body.
    public static let put = HTTPMethod("PUT")
    /// Applies partial changes to the target resource (RFC 5789).
    public static let patch = HTTPMethod("PATCH")
    /// Removes the target resource.
    public static let delete = HTTPMethod("DELETE")
    /// Asks for the options of the target resource.
    public static let options = HTTPMethod("OPTIONS")

    /// The method's name.
    public var description: String { rawValue }

    /// Whether sending the request twice has the effect of sending it once (RFC 9110, section 9.2.2).
    public var isIdempotent: Bool {
        switch self {
        case .get, .head, .put, .delete, .options, HTTPMethod("TRACE"): true
        default: false
        }
    }

    var isToken: Bool { rawValue.isHTTPToken }
}
