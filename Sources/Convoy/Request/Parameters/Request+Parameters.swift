// Parameters in the query, in a form and in JSON.
import Foundation

extension Request {
    /// Adds parameters to the query, behind what is there already; they are encoded now, on the calling thread.
    ///
    /// ```swift
    /// // [String: any Encodable]; a literal, nested; [String: Any]; a type
    /// Request<[User]>.get(url).query(["name": name, "page": page])
    /// Request<[User]>.get(url).query(["user": ["tags": ["a", "b"]]])
    /// Request<[User]>.get(url).query(["user": ["name": name, "tags": tags]])
    /// Request<[User]>.get(url)
    ///     .query(filter, encoding: .init(nilEncoding: .null))
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

    /// Adds parameters to the query, behind what is there already: a literal, nested as one likes.
    ///
    /// - Parameters:
    ///   - parameters: a dictionary; anything else makes the request invalid.
    ///   - encoding: how; that of Alamofire by default.
    public func query(_ parameters: ParameterValue, encoding: ParameterEncoding = .default) -> Self {
        addingQuery { try encoding.encode(parameters) }
    }

    /// Adds parameters to the query, behind what is there already: values of several types.
    public func query(_ parameters: [String: any Encodable], encoding: ParameterEncoding = .default) -> Self {
        addingQuery { try encoding.encode(MixedParameters(values: parameters)) }
    }

    /// Adds parameters to the query, behind what is there already: variables, nested as one likes.
    ///
    /// The compiler cannot check them. A value that is not `Encodable`, no dictionary with text for keys, no array, no
    /// `NSNumber` and no `NSNull` makes the request invalid, with its key path.
    @_disfavoredOverload
    public func query(_ parameters: [String: Any], encoding: ParameterEncoding = .default) -> Self {
        addingQuery { try encoding.encode(UncheckedParameter(value: parameters)) }
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

    /// Sets parameters as a form's body, in place of any other body: a literal, nested as one likes.
    ///
    /// - Parameters:
    ///   - parameters: a dictionary; anything else makes the request invalid.
    ///   - encoding: how; that of Alamofire by default.
    public func form(_ parameters: ParameterValue, encoding: ParameterEncoding = .default) -> Self {
        settingForm { try encoding.encode(parameters) }
    }

    /// Sets parameters as a form's body, in place of any other body: values of several types.
    public func form(_ parameters: [String: any Encodable], encoding: ParameterEncoding = .default) -> Self {
        settingForm { try encoding.encode(MixedParameters(values: parameters)) }
    }

    /// Sets parameters as a form's body, in place of any other body: variables, nested as one likes.
    ///
    /// The compiler cannot check them; what cannot be encoded makes the request invalid, with its key path.
    @_disfavoredOverload
    public func form(_ parameters: [String: Any], encoding: ParameterEncoding = .default) -> Self {
        settingForm { try encoding.encode(UncheckedParameter(value: parameters)) }
    }

    /// Sets a JSON body and its content type: a literal, nested as one likes.
    ///
    /// - Parameters:
    ///   - value: what to encode.
    ///   - encoder: encodes it now, on the calling thread; without one it is encoded as any `Sendable` value,
    ///     ``json(_:)``.
    public func json(_ value: ParameterValue, encoder: JSONEncoder? = nil) -> Self {
        guard let encoder else { return changed { $0.setJSON(.json { try ($0 ?? JSONEncoder()).encode(value) }) } }
        return settingJSON { try encoder.encode(value) }
    }

    /// Sets a JSON body and its content type: values of several types.
    ///
    /// - Parameters:
    ///   - values: encoded now, on the calling thread.
    ///   - encoder: the encoder; a plain `JSONEncoder` by default, whatever the manager's is.
    public func json(_ values: [String: any Encodable], encoder: JSONEncoder = JSONEncoder()) -> Self {
        settingJSON { try encoder.encode(MixedParameters(values: values)) }
    }

    /// Sets a JSON body and its content type: variables, nested as one likes.
    ///
    /// The compiler cannot check them; what cannot be encoded makes the request invalid, with its key path. The encoder is a
    /// plain one by default, whatever the manager's is.
    @_disfavoredOverload
    public func json(_ values: [String: Any], encoder: JSONEncoder = JSONEncoder()) -> Self {
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

/// Values of several types by key, in the order of their keys.
private struct MixedParameters: Encodable {
    let values: [String: any Encodable]

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: ParameterKey.self)
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            try container.encode(value, forKey: ParameterKey(key))
        }
    }
}
