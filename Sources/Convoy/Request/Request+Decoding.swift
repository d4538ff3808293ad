// Decoders, checks of the response, and bodies of failures.
import Foundation

extension Request where Output: Decodable {
    /// The same request with its output, even `Data` or `String`, decoded from JSON by your decoder.
    ///
    /// The body may be in UTF-8, UTF-16 or UTF-32, and of any JSON type. An `Optional` output is nil for an empty body.
    ///
    /// ```swift
    /// let decoder = JSONDecoder()
    /// decoder.keyDecodingStrategy = .convertFromSnakeCase
    /// let request = Request<User>.get("https://example.com/users/1")
    ///     .decoding(with: decoder)
    /// ```
    ///
    /// - Parameter decoder: the decoder, which you must not change afterwards.
    public func decoding(with decoder: JSONDecoder) -> Self {
        decoding(byFunction: false) { body, head in
            try ResponseDecoding.absent(Output.self, body)
                ?? ResponseDecoding.json(Output.self, body, head, decoder)
        }
    }
}

extension Request {
    /// The same request with a typed failure, decoded from the JSON body of a response with an unacceptable status.
    ///
    /// The operation still fails with `.unacceptableStatus`, as its dependents, batches and logs see;
    /// ``RequestError/refusal(as:)`` of the error returns the decoded value. Only the final response is decoded, after
    /// redirects and retries, whatever its content type. Its body must be complete and at most ``maxBodyBytes(_:)``
    /// long. If it cannot be decoded, for example a proxy's HTML page, the error has no value and its message says why.
    /// A request with a typed failure does not share its transfer. A later call replaces the failure of an earlier one;
    /// changing the output does not. Do not change the decoder, by default the manager's, afterwards.
    public func failing<Failure: Error & Decodable>(with type: Failure.Type, decoder: JSONDecoder? = nil) -> Self {
        changed {
            $0.policies.refusesByFunction = false
            $0.policies.decodesRefusal = { body, head in
                try ResponseDecoding.json(type, body.data, head, decoder ?? body.decoder ?? JSONDecoder())
            }
        }
    }

    /// The same request with a typed failure made by your function; see ``failing(with:decoder:)``.
    ///
    /// - Parameter decode: makes the failure from a complete body. If the function throws, the error has no value.
    /// - Thread: a thread of the library, never a transport's.
    public func failing<Failure: Error>(
        _ decode: @escaping @Sendable (_ body: Data, _ head: ResponseHead) throws -> Failure
    ) -> Self {
        changed { core in
            core.policies.decodesRefusal = { body, head in try decode(body.data, head) }
            core.policies.refusesByFunction = true
        }
    }

    /// Sets the accepted content types, such as `application/json`, `image/*` or `*/*`; every type by default.
    ///
    /// A response of another type fails with `.unacceptableContentType` before any byte is written. Types are compared
    /// without case and parameters. A missing or unreadable type counts as `application/octet-stream` (RFC 9110,
    /// section 8.3). A response that cannot have a body, or declares an empty one, is accepted; an unacceptable status
    /// is not checked. No `Accept` field is added.
    public func acceptableContentTypes(_ types: String...) -> Self { acceptableContentTypes(types) }

    func acceptableContentTypes(_ types: [String]) -> Self {
        changed { core in
            core.defect = core.defect ?? ContentTypeCheck.defect(of: types)
            core.policies.acceptableContentTypes = ContentTypeCheck(types)
        }
    }
}
