// The smallest uses with parameters: Request.get(url, query:), .post(url, form:), and JSON written down in the call.

extension Request where Output: Decodable {
    /// A GET request with parameters in its query; see ``query(_:encoding:)``.
    public static func get(
        _ url: some RequestURL, query: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query: a literal, nested as one likes.
    public static func get(
        _ url: some RequestURL, query: ParameterValue, encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A GET request with parameters in its query: values of several types.
    public static func get(
        _ url: some RequestURL, query: [String: any Encodable], encoding: ParameterEncoding = .default
    ) -> Self { get(url).query(query, encoding: encoding) }

    /// A POST request with a form; see ``form(_:encoding:)``.
    public static func post(
        _ url: some RequestURL, form: some Encodable, encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a form: a literal, nested as one likes.
    public static func post(
        _ url: some RequestURL, form: ParameterValue, encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a form: values of several types.
    public static func post(
        _ url: some RequestURL, form: [String: any Encodable], encoding: ParameterEncoding = .default
    ) -> Self { post(url).form(form, encoding: encoding) }

    /// A POST request with a JSON body: a literal, nested as one likes.
    public static func post(_ url: some RequestURL, json: ParameterValue) -> Self { post(url).json(json) }

    /// A POST request with a JSON body: values of several types.
    public static func post(_ url: some RequestURL, json: [String: any Encodable]) -> Self { post(url).json(json) }

    /// A PUT request with a JSON body: a literal, nested as one likes.
    public static func put(_ url: some RequestURL, json: ParameterValue) -> Self { put(url).json(json) }

    /// A PUT request with a JSON body: values of several types.
    public static func put(_ url: some RequestURL, json: [String: any Encodable]) -> Self { put(url).json(json) }

    /// A PATCH request with a JSON body: a literal, nested as one likes.
    public static func patch(_ url: some RequestURL, json: ParameterValue) -> Self {
        Self(method: .patch, url: url).json(json)
    }

    /// A PATCH request with a JSON body: values of several types.
    public static func patch(_ url: some RequestURL, json: [String: any Encodable]) -> Self {
        Self(method: .patch, url: url).json(json)
    }
}
