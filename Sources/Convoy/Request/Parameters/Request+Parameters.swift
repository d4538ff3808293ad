// Parameters in the query, in a form and in JSON.
import Foundation

extension Request {
    /// Adds parameters to the query, behind what is there already; they are encoded now, on the calling thread.
    ///
    /// ```swift
    /// // A type that encodes itself; a dictionary.
    /// Request<[User]>.get(url)
    ///     .query(filter, encoding: .init(nilEncoding: .null))
    /// Request<[User]>.get(url).query(["name": name, "page": page])
    /// Request<[User]>.get(url).query(["user": ["name": name, "tags": tags]])
    /// ```
    ///
    /// Parameters that cannot be encoded make the request invalid, with the key path and the reason. What has no pairs,
    /// an empty dictionary or nil, adds nothing.
    ///
    /// - Parameters:
    ///   - parameters: a dictionary, or a type that encodes itself as one; encoded now, on the calling thread.
    ///   - encoding: how; that of Alamofire by default.
    public func query(_ parameters: some Encodable, encoding: ParameterEncoding = .default) -> Self {
        addingQuery { try encoding.encode(parameters) }
    }

    /// Adds parameters to the query, behind what is there already: a dictionary of several types, nested as one likes.
    ///
    /// The compiler cannot check the values; see ``ParameterEncoding/encode(_:)-([String:Any?])``.
    @_disfavoredOverload
    public func query(_ parameters: [String: Any?], encoding: ParameterEncoding = .default) -> Self {
        addingQuery { try encoding.encode(parameters) }
    }

    /// Sets parameters as a form's body (`application/x-www-form-urlencoded`), in place of any other body.
    ///
    /// ```swift
    /// Request<Token>.post(url).form(["name": name, "remember": true])
    /// ```
    ///
    /// The content type is `application/x-www-form-urlencoded; charset=utf-8`, unless there is no body yet and a
    /// `Content-Type` has been set. Parameters that cannot be encoded make the request invalid, with the key path and the
    /// reason.
    ///
    /// - Parameters:
    ///   - parameters: a dictionary, or a type that encodes itself as one; encoded now, on the calling thread.
    ///   - encoding: how; that of Alamofire by default.
    public func form(_ parameters: some Encodable, encoding: ParameterEncoding = .default) -> Self {
        settingForm { try encoding.encode(parameters) }
    }

    /// Sets parameters as a form's body, in place of any other body: a dictionary of several types, nested as one likes.
    ///
    /// The compiler cannot check the values; see ``ParameterEncoding/encode(_:)-([String:Any?])``.
    @_disfavoredOverload
    public func form(_ parameters: [String: Any?], encoding: ParameterEncoding = .default) -> Self {
        settingForm { try encoding.encode(parameters) }
    }

    /// Sets a JSON body and its content type: a dictionary of several types, nested as one likes.
    ///
    /// The compiler cannot check the values: those of ``ParameterEncoding/encode(_:)-([String:Any?])`` can be encoded, and
    /// another makes the request invalid, with its key path. They are encoded now, on the calling thread, by a plain encoder
    /// where none is given, whatever the manager's is.
    @_disfavoredOverload
    public func json(_ values: [String: Any?], encoder: JSONEncoder = JSONEncoder()) -> Self {
        settingJSON { try encoder.encode(UncheckedParameter(value: values)) }
    }

    private func addingQuery(_ encode: () throws -> String) -> Self {
        encoded("the query parameters", encode) { core, text in
            if !text.isEmpty { core.query.append(text) }
        }
    }

    private func settingForm(_ encode: () throws -> String) -> Self {
        encoded("the form", encode) { core, text in
            // What describes a body that is replaced goes with it; what stands alone is the caller's.
            if core.body != nil || !core.headerFields.contains("Content-Type") {
                core.headerFields["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
            }
            core.body = .data(Data(text.utf8))
        }
    }

    /// Sets a JSON body that is encoded here and now.
    func settingJSON(_ encode: () throws -> Data) -> Self {
        encoded("the JSON body", encode) { $0.setJSON(.data($1)) }
    }

    /// The request with something encoded, or with the reason why it cannot be.
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
