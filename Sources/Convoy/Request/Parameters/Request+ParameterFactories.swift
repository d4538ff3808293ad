// The smallest uses with parameters: Request.get(url, query:), .post(url, form:), and JSON written down in the call.
// Those with [String: Any?] stand back behind the others, which the compiler can check.

extension Request where Output: Decodable {
    /// A GET request with parameters in its query; see ``query(_:encoding:)-(Encodable,_)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query: a dictionary of several types, nested as one likes; see
    /// ``query(_:encoding:)-([String:Any?],_)``.
    @_disfavoredOverload
    public static func get(
        _ url: some RequestURL, query: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A POST request with a form; see ``form(_:encoding:)-(Encodable,_)``.
    public static func post(
        _ url: some RequestURL, form: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a form: a dictionary of several types, nested as one likes.
    @_disfavoredOverload
    public static func post(
        _ url: some RequestURL, form: [String: Any?], encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a JSON body: a dictionary of several types, nested as one likes.
    @_disfavoredOverload
    public static func post(_ url: some RequestURL, json: [String: Any?]) -> Self { post(url).json(json) }

    /// A PUT request with a JSON body: a dictionary of several types, nested as one likes.
    @_disfavoredOverload
    public static func put(_ url: some RequestURL, json: [String: Any?]) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body: a dictionary of several types, nested as one likes.
    @_disfavoredOverload
    public static func patch(_ url: some RequestURL, json: [String: Any?]) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}
