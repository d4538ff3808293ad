// Short forms: Request.get, .post and others. If an output is isolated to the main actor, the compiler reports an
// error, and shows the last line of the comment below the error.
import Foundation

extension Request where Output: Decodable {
    /// Describes a request with an output of type `Data` (the raw body), `String` (decoded by its charset) or any other
    /// `Decodable` (from JSON, in UTF-8, UTF-16 or UTF-32).
    ///
    /// An `Optional` output is nil for an empty body. The URL may be relative to the manager's base URL.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public init(method: HTTPMethod, url: some RequestURL) {
        self.init(method, url, Self.standardDecoder)
        core.decodesAtOnce = Output.self == Data.self
    }

    /// The standard decoder, made outside `init`, so that its closure does not capture the generic type of the URL.
    private static var standardDecoder: BodyDecoder<Output> {
        { body, head in try ResponseDecoding.standard(Output.self, body.data, head, body.decoder) }
    }

    /// A GET request.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func get(_ url: some RequestURL) -> Self { Self(method: .get, url: url) }

    /// A DELETE request.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func delete(_ url: some RequestURL) -> Self { Self(method: .delete, url: url) }

    /// A POST request without a body; give it one with ``body(_:contentType:)-(Data,_)``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func post(_ url: some RequestURL) -> Self { Self(method: .post, url: url) }

    /// A POST request with a JSON body.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func post(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { post(url).json(json) }

    /// A POST request with a JSON body that is not `Sendable`; see ``json(_:encoder:)-(Encodable,_)``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func post(_ url: some RequestURL, json: some Encodable) -> Self { post(url).json(json) }

    /// A PUT request without a body; give it one with ``body(_:contentType:)-(Data,_)``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func put(_ url: some RequestURL) -> Self { Self(method: .put, url: url) }

    /// A PUT request with a JSON body.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func put(_ url: some RequestURL, json: some Encodable & Sendable) -> Self { put(url).json(json) }

    /// A PUT request with a JSON body that is not `Sendable`; see ``json(_:encoder:)-(Encodable,_)``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func put(_ url: some RequestURL, json: some Encodable) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func patch(_ url: some RequestURL, json: some Encodable & Sendable) -> Self {
        Self(method: .patch, url: url).json(json)
    }

    /// A PATCH request with a JSON body that is not `Sendable`; see ``json(_:encoder:)-(Encodable,_)``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public static func patch(_ url: some RequestURL, json: some Encodable) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}

extension Request where Output == Void {
    /// A HEAD request: status and header fields only.
    public static func head(_ url: some RequestURL) -> Request<Void> { Request(method: .head, url: url) { _, _ in } }
}
