// Errors of encoding that say where.

extension EncodingError {
    /// What cannot be encoded, without the value: it may be a secret.
    static func refusal(
        _ reason: String, at codingPath: [any CodingKey], underlying: (any Error)? = nil
    ) -> EncodingError {
        .invalidValue((), Context(codingPath: codingPath, debugDescription: reason, underlyingError: underlying))
    }

    static func tooDeep(at codingPath: [any CodingKey]) -> EncodingError {
        .refusal("it is nested too deep, or in itself", at: codingPath)
    }

    /// What a type or a rule of the caller's has thrown, with its place; an error that has one already as it is.
    static func failure(_ error: any Error, at codingPath: [any CodingKey]) -> EncodingError {
        error as? EncodingError ?? .refusal("\(error)", at: codingPath, underlying: error)
    }

    /// The key path and what is wrong there, in words: `user.scores[0]: it is empty`.
    var reason: String {
        guard case .invalidValue(_, let context) = self else { return "\(self)" }
        let path = context.codingPath.keyPath
        return path.isEmpty ? context.debugDescription : "\(path): \(context.debugDescription)"
    }
}

extension [any CodingKey] {
    /// The path as one would write it in code: `user.scores[0]`, `user["first name"]`; shortened in its middle.
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
