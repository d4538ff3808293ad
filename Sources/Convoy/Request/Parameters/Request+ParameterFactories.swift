// Request factories with parameters: .get(url, query:), .post(url, form:), and .post, .put and .patch with JSON
// literals. The overloads with [String: Any?] are disfavored, because the compiler cannot check their values.

extension Request where Output: Decodable {
    /// A GET request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query, from a dictionary.
    ///
    /// The values may have different types and be nested. See ``query(_:encoding:)-([String:Any?],_)``.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A POST request with a form; see ``form(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, form: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a form from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, form: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a JSON body from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL, json: [String: Any?]) -> Self { post(url).json(json) }

    /// A PUT request with a JSON body from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL, json: [String: Any?]) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body from a dictionary.
    ///
    /// The values may have different types and be nested.
    @_disfavoredOverload
    public static func patch(_ url: some RequestURL, json: [String: Any?]) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}
