// Request factories with query parameters, such as .delete(url, query:), for each output: Decodable, Void and Data.
import Foundation

extension Request where Output: Decodable {
    /// A DELETE request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func put(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }
}

extension Request where Output == Void {
    /// A GET request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func put(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A HEAD request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func head(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { head(url).query(query, encoding: encoding) }

    /// A HEAD request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func head(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { head(url).query(query, encoding: encoding) }
}

/// Request factories for calls that name no output type. The output is the raw body, `Data`.
extension Request where Output == Data {
    /// A GET request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request for the raw body, with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A DELETE request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request for the raw body, with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request for the raw body, with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request for the raw body, with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested.
    public static func put(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }
}
