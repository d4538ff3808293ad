// Writes a tree of parameters as text: joins keys, sorts pairs, percent-encodes everything.

/// Writes a tree of parameters as pairs `key=value`, joined with `&`.
struct ParameterText {
    private let encoding: ParameterEncoding
    private let escaper: PercentEscaper

    init(encoding: ParameterEncoding) {
        self.encoding = encoding
        let choosable = "/?:@!$'()*,;".filter(encoding.allowedCharacters.contains)
        escaper = PercentEscaper(
            allowed: "-._~\(choosable)", writesSpaceAsPlus: encoding.spaceEncoding == .plusReplaced)
    }

    /// The pairs of the complete tree.
    func text(of root: ParameterNode) throws -> String {
        if let defect = root.defect { throw defect }
        switch root.content {
        case .nothing, .absent: return ""
        case .object(let members): return try joined(members, below: nil, at: []) ?? ""
        case .array, .text:
            throw EncodingError.refusal("it has no key: put it into a dictionary, [\"name\": value]", at: [])
        }
    }

    /// The pairs of one node; nil when the encoding omits the node.
    private func text(of node: ParameterNode, key: String, at path: [any CodingKey]) throws -> String? {
        if let defect = node.defect { throw defect }
        switch node.content {
        case .absent: return nil
        case .text(let text): return try pair(key, text)
        case .object(let members) where !members.list.isEmpty: return try joined(members, below: key, at: path)
        case .array(let elements) where !elements.isEmpty:
            let segments = try elements.enumerated().compactMap { index, element in
                let elementKey = try encoding.arrayEncoding.rule.apply((key, index))
                return try text(of: element, key: elementKey, at: path + [ParameterKey(index: index)])
            }
            return segments.isEmpty ? nil : segments.joined(separator: "&")
        case .nothing, .object, .array:
            switch encoding.emptyEncoding {
            case .dropKey: return nil
            case .dropValue: return try pair(key, "")
            case .refuse: throw EncodingError.refusal("it is empty", at: path)
            }
        }
    }

    /// The pairs of an object, sorted if ``ParameterEncoding/alphabetizeKeyValuePairs`` is true; nil for no pairs.
    private func joined(
        _ members: ParameterNode.Members, below key: String?, at path: [any CodingKey]
    ) throws -> String? {
        var segments = try flattened(members, at: path).compactMap { name, node in
            let memberKey = try key.map { try $0 + encoding.keyPathEncoding.rule.apply(name) } ?? name
            return try text(of: node, key: memberKey, at: path + [ParameterKey(name)])
        }
        if encoding.alphabetizeKeyValuePairs { segments.sort() }
        return segments.isEmpty ? nil : segments.joined(separator: "&")
    }

    /// The values of an object and its superclass, in the order of encoding.
    private func flattened(
        _ members: ParameterNode.Members, at path: [any CodingKey]
    ) throws -> [(key: String, node: ParameterNode)] {
        var keys: Set<String> = []
        var all: [(key: String, node: ParameterNode)] = []
        for (key, node) in members.list {
            if let defect = node.defect { throw defect }
            var values = [(key: key ?? "super", node: node)]
            switch (key, node.content) {
            case (nil, .object(let inherited)): values = try flattened(inherited, at: path)
            case (nil, .nothing), (nil, .absent): values = []
            default: break
            }
            for value in values {
                guard keys.insert(value.key).inserted else {
                    throw EncodingError.refusal(
                        "a class and its superclass both encode this key", at: path + [ParameterKey(value.key)])
                }
                all.append(value)
            }
        }
        return all
    }

    private func pair(_ key: String, _ text: String) throws -> String {
        let key = try encoding.keyEncoding.rule.apply(key)
        var pair = ""
        pair.reserveCapacity(key.utf8.count + text.utf8.count + 1)
        escaper.escape(key, into: &pair)
        pair += "="
        escaper.escape(text, into: &pair)
        return pair
    }
}
