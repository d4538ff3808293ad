// Decoders, checks of the answer, and bodies of failures.
import Foundation

extension Request where Output: Decodable {
    /// The same request with its output decoded from JSON by a decoder of yours.
    ///
    /// The body may be in UTF-8, UTF-16 or UTF-32, with or without a byte order mark, and may be a fragment. An `Optional`
    /// output is nil for an empty body. `Data` and `String` are those of JSON here.
    ///
    /// ```swift
    /// let decoder = JSONDecoder()
    /// decoder.keyDecodingStrategy = .convertFromSnakeCase
    /// let request = Request<User>.get("https://example.com/users/1")
    ///     .decoding(with: decoder)
    /// ```
    ///
    /// - Parameter decoder: used as it is; do not change it afterwards.
    public func decoding(with decoder: JSONDecoder) -> Self {
        decoding(as: decoder) { body, head in
            try ResponseDecoding.absent(Output.self, body)
                ?? ResponseDecoding.json(Output.self, body, head, decoder)
        }
    }

    /// The same request with its output decoded from a property list, XML or binary.
    ///
    /// An `Optional` output is nil for an empty body. Lists nested deeper than 200 are refused: Foundation's decoder can
    /// run out of stack.
    ///
    /// - Parameter decoder: used as it is; do not change it afterwards.
    public func decoding(with decoder: PropertyListDecoder) -> Self {
        decoding(as: decoder) { body, _ in
            try ResponseDecoding.absent(Output.self, body)
                ?? ResponseDecoding.propertyList(Output.self, body, decoder)
        }
    }
}

extension Request {
    /// The same request with a typed failure: what the body of an answer with an unacceptable status tells.
    ///
    /// The operation fails as without it, with `.unacceptableStatus`, and so do its dependents, batches and logs; the error
    /// gives the decoded value, ``RequestError/refusal(as:)``. Retries and redirects come first: only an answer that would
    /// be the outcome is decoded, when its body is complete and at most ``maxBodyBytes(_:)`` long. Of one whose body is
    /// no such failure, a proxy's page for example, the error has no value, and its message says why. The content type is
    /// not checked. Such a request shares no transfer with others.
    ///
    /// ```swift
    /// struct Problem: Error, Decodable { var title: String }
    /// let request = Request<User>.get("https://example.com/users/1")
    ///     .failing(with: Problem.self)
    /// do {
    ///     show(try await manager.send(request).value)
    /// } catch {
    ///     show(error.refusal(as: Problem.self)?.title ?? error.message)
    /// }
    /// ```
    ///
    /// Whatever makes the output, before or after: the failure stays. Set again, the last one counts.
    ///
    /// - Parameters:
    ///   - type: what the body of a failure is decoded to, from JSON.
    ///   - decoder: used as it is, do not change it afterwards; that of the manager by default,
    ///     ``RequestManager/Configuration/decoder``.
    public func failing<Failure: Error & Decodable>(with type: Failure.Type, decoder: JSONDecoder? = nil) -> Self {
        changed {
            $0.policies.refusesByFunction = false
            $0.policies.decodesRefusal = { body, head in
                try ResponseDecoding.json(type, body.data, head, decoder ?? body.decoder ?? JSONDecoder())
            }
        }
    }

    /// The same with a function of yours, ``failing(with:decoder:)``.
    ///
    /// - Parameter decode: makes the failure of a complete body; when it throws, the error has no value.
    /// - Thread: one of the library's, never a transport's.
    public func failing<Failure: Error>(
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> Failure
    ) -> Self {
        changed { core in
            core.policies.decodesRefusal = { body, head in try decode(body.data, head) }
            core.policies.refusesByFunction = true
        }
    }

    /// Sets which content types are accepted; every one by default.
    ///
    /// Others end with `.unacceptableContentType`, whatever the destination, before anything is written. The type is
    /// compared without case and without its parameters. An answer with a body and without a type, or with one that cannot
    /// be read, counts as `application/octet-stream` (RFC 9110, section 8.3); an answer that can have no body is accepted,
    /// and one whose status is not acceptable is not looked at. No `Accept` field is sent for it.
    ///
    /// - Parameter types: such as `application/json`, `image/*` or `*/*`.
    public func acceptableContentTypes(_ types: String...) -> Self { acceptableContentTypes(types) }

    func acceptableContentTypes(_ types: [String]) -> Self {
        changed { core in
            switch ContentTypeCheck.make(types) {
            case .success(let check): core.policies.acceptableContentTypes = check
            case .failure(let problem): core.defect = core.defect ?? problem.reason
            }
        }
    }
}
