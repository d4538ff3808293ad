// Encoding errors with a key path.

extension EncodingError {
    /// The error for a value that cannot be encoded.
    ///
    /// The message does not contain the value, which may be a secret.
    static func refusal(
        _ reason: String, at codingPath: [any CodingKey], underlying: (any Error)? = nil
    ) -> EncodingError {
        .invalidValue((), Context(codingPath: codingPath, debugDescription: reason, underlyingError: underlying))
    }

    static func tooDeep(at codingPath: [any CodingKey]) -> EncodingError {
        .refusal("it is nested too deeply, or contains itself", at: codingPath)
    }

    /// The error of a custom type or rule, with its key path.
    ///
    /// An `EncodingError` is not changed.
    static func failure(_ error: any Error, at codingPath: [any CodingKey]) -> EncodingError {
        error as? EncodingError ?? .refusal("\(error)", at: codingPath, underlying: error)
    }

    /// The key path and the problem, as a text: `user.scores[0]: it is empty`.
    var reason: String {
        guard case .invalidValue(_, let context) = self else { return "\(self)" }
        let path = context.codingPath.keyPath
        return path.isEmpty ? context.debugDescription : "\(path): \(context.debugDescription)"
    }
}

extension [any CodingKey] {
    /// The path in the syntax of code: `user.scores[0]`, `user["first name"]`.
    ///
    /// A long path is shortened in the middle.
    var keyPath: String {
        let steps = map { key in
            if let index = key.intValue { return "[\(index)]" }
            let name = key.stringValue
            let isPlain = !name.isEmpty && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
            return isPlain ? ".\(name)" : "[\(name.debugDescription)]"
        }
        let shown = steps.count > 24 ? steps.prefix(12) + ["…"] + steps.suffix(11) : steps[...]
        let path = shown.joined()
        return path.hasPrefix(".") ? String(path.dropFirst()) : path
    }
}
