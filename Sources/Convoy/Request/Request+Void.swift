// Requests without an output, and factories for code that does not name an output type.
import Foundation

extension Request where Output == Void {
    /// Describes a request for status and header fields only.
    ///
    /// The body of the response is received and discarded.
    ///
    /// - Parameters:
    ///   - method: the request method.
    ///   - url: a URL or string, absolute or relative to the manager's base URL.
    public init(method: HTTPMethod, url: some RequestURL) {
        self = Request<Void>(method: method, url: url) { _, _ in }.ignoringBody()
    }

    /// A GET request whose response body is discarded.
    @_disfavoredOverload
    public static func get(_ url: some RequestURL) -> Self { Self(method: .get, url: url) }

    /// A DELETE request.
    ///
    /// The body of the response is discarded.
    @_disfavoredOverload
    public static func delete(_ url: some RequestURL) -> Self { Self(method: .delete, url: url) }

    /// A POST request whose response body is discarded.
    ///
    /// Set the request's body with ``body(_:contentType:)-(Data,_)``.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL) -> Self { Self(method: .post, url: url) }

    /// A POST request with a JSON body.
    ///
    /// The body of the response is discarded.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .post, url: url).json(json)
    }

    /// A PUT request whose response body is discarded.
    ///
    /// Set the request's body with ``body(_:contentType:)-(Data,_)``.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL) -> Self { Self(method: .put, url: url) }

    /// A PUT request with a JSON body.
    ///
    /// The body of the response is discarded.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .put, url: url).json(json)
    }

    /// A PATCH request with a JSON body.
    ///
    /// The body of the response is discarded.
    @_disfavoredOverload
    public static func patch(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}

/// Request factories for calls that name no output type, such as `manager.send(.get(url))`. The output is the raw body,
/// `Data`.
///
/// Without these functions the compiler would choose the functions for `Void`, because only those would have a fixed
/// output type. The body would then be discarded silently.
extension Request where Output == Data {
    /// A GET request for the raw body.
    public static func get(_ url: some RequestURL) -> Self { Self(method: .get, url: url) }

    /// A DELETE request for the raw body of its response.
    public static func delete(_ url: some RequestURL) -> Self { Self(method: .delete, url: url) }

    /// A POST request for the raw body of its response.
    ///
    /// Set the request's body with ``body(_:contentType:)-(Data,_)``.
    public static func post(_ url: some RequestURL) -> Self { Self(method: .post, url: url) }

    /// A POST request with a JSON body, for the raw body of its response.
    public static func post(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .post, url: url).json(json)
    }

    /// A PUT request for the raw body of its response.
    ///
    /// Set the request's body with ``body(_:contentType:)-(Data,_)``.
    public static func put(_ url: some RequestURL) -> Self { Self(method: .put, url: url) }

    /// A PUT request with a JSON body, for the raw body of its response.
    public static func put(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .put, url: url).json(json)
    }

    /// A PATCH request with a JSON body, for the raw body of its response.
    public static func patch(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}
