// Parameters in the query, in a form and in JSON.
import Foundation

extension Request {
    /// Appends parameters, from a dictionary or a type that encodes itself as one, to the query, encoded at once.
    ///
    /// Parameters that cannot be encoded make the request invalid, with key path and reason. An empty dictionary or nil
    /// adds nothing. The encoding is Alamofire's by default.
    public func query(_ parameters: some Encodable, encoding: ParameterEncoding = .default) -> Self {
        encoded("the query parameters", { try encoding.encode(parameters) }) { core, text in
            if !text.isEmpty { core.query.append(text) }
        }
    }

    /// Appends parameters to the query, from a dictionary of nested values of any type, which the compiler cannot
    /// check; see ``ParameterEncoding/encode(_:)-([String:Any?])``.
    @_disfavoredOverload
    public func query(_ parameters: [String: Any?], encoding: ParameterEncoding = .default) -> Self {
        query(UncheckedParameter(value: parameters), encoding: encoding)
    }

    /// Sets parameters as a form body (`application/x-www-form-urlencoded`), in place of any other body, as
    /// ``query(_:encoding:)-(Encodable,_)`` encodes them.
    ///
    /// The content type is `application/x-www-form-urlencoded; charset=utf-8`, unless there is no body yet and a
    /// `Content-Type` has been set.
    public func form(_ parameters: some Encodable, encoding: ParameterEncoding = .default) -> Self {
        encoded("the form", { try encoding.encode(parameters) }) { core, text in
            // A new body replaces the earlier body's content type, but not one that the caller set without a body.
            if core.body != nil || !core.headerFields.contains("Content-Type") {
                core.headerFields["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
            }
            core.body = .data(Data(text.utf8))
        }
    }

    /// Sets parameters from a dictionary of nested values of any type as a form body, in place of any other body; see
    /// ``ParameterEncoding/encode(_:)-([String:Any?])``.
    @_disfavoredOverload
    public func form(_ parameters: [String: Any?], encoding: ParameterEncoding = .default) -> Self {
        form(UncheckedParameter(value: parameters), encoding: encoding)
    }

    /// Sets a JSON body and its content type, from a dictionary of nested values of any type.
    ///
    /// Other values than those of ``ParameterEncoding/encode(_:)-([String:Any?])`` make the request invalid, with the
    /// key path. They are encoded at once, on the calling thread, by the given encoder, never by the manager's.
    @_disfavoredOverload
    public func json(_ values: [String: Any?], encoder: JSONEncoder = JSONEncoder()) -> Self {
        settingJSON { try encoder.encode(UncheckedParameter(value: values)) }
    }

    func settingJSON(_ encode: () throws -> Data) -> Self {
        encoded("the JSON body", encode) { $0.set(.data($1), "application/json") }
    }

    private func encoded<Encoded>(
        _ name: String, _ encode: () throws -> Encoded, _ use: (inout RequestCore, Encoded) -> Void
    ) -> Self {
        changed { core in
            do {
                use(&core, try encode())
            } catch {
                core.defect = core.defect ?? RequestCore.defect(name, error)
            }
        }
    }
}

extension Request where Output: Decodable {
    /// A GET request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A POST request with a form; see ``form(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, form: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a form from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, form: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a JSON body from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL, json: [String: Any?]) -> Self { post(url).json(json) }

    /// A PUT request with a JSON body from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL, json: [String: Any?]) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func patch(_ url: some RequestURL, json: [String: Any?]) -> Self {
        Self(method: .patch, url: url).json(json)
    }

    /// A DELETE request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query, from a dictionary of nested values of any type.
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

    /// A GET request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    @_disfavoredOverload
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func put(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A HEAD request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func head(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { head(url).query(query, encoding: encoding) }

    /// A HEAD request with parameters in its query, from a dictionary of nested values of any type.
    @_disfavoredOverload
    public static func head(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { head(url).query(query, encoding: encoding) }
}

extension Request where Output == Data {
    /// A GET request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request for the raw body, with parameters in its query, from a dictionary of nested values of any type.
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A DELETE request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func delete(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A DELETE request for the raw body, with parameters in its query, from a dictionary of nested values of any type.
    public static func delete(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { delete(url).query(query, encoding: encoding) }

    /// A POST request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A POST request for the raw body, with parameters in its query, from a dictionary of nested values of any type.
    public static func post(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).query(query, encoding: encoding) }

    /// A PUT request for the raw body, with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func put(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }

    /// A PUT request for the raw body, with parameters in its query, from a dictionary of nested values of any type.
    public static func put(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { put(url).query(query, encoding: encoding) }
}
