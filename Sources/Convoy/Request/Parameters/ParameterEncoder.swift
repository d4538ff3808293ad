// The encoder to which parameters encode themselves. It builds a tree of their values.
import Foundation

/// A value in the tree, and the encoder to which that value encodes itself.
final class ParameterNode: Encoder, SingleValueEncodingContainer {
    enum Content {
        case nothing
        /// A nil that the encoding omits; any other state may follow.
        case absent
        case text(String)
        case array([ParameterNode])
        case object(Members)
    }

    /// The values of an object in the order of the first use of their keys.
    struct Members {
        /// A node without a key contains the values of a superclass, which belong to the object itself.
        private(set) var list: [(key: String?, node: ParameterNode)] = []
        private var positions: [String: Int] = [:]

        subscript(_ key: String) -> ParameterNode? { positions[key].map { list[$0].node } }

        mutating func set(_ node: ParameterNode, for key: String?) {
            if let key, let position = positions[key] {
                list[position].node = node
                return
            }
            if let key { positions[key] = list.count }
            list.append((key, node))
        }
    }

    /// Two for each nested dictionary or array; without a limit, a cycle of references would overflow the stack.
    static let maxDepth = 256

    let encoding: ParameterEncoding
    let codingPath: [any CodingKey]
    private var depth: Int
    private var content = Content.nothing
    /// The first error of a function that cannot throw; `text` throws it.
    private var defect: EncodingError?

    init(_ encoding: ParameterEncoding, at codingPath: [any CodingKey] = [], depth: Int = 0) {
        (self.encoding, self.codingPath, self.depth) = (encoding, codingPath, depth)
    }

    var userInfo: [CodingUserInfoKey: Any] { [:] }
    var members: Members { if case .object(let members) = content { members } else { Members() } }
    var count: Int { if case .array(let elements) = content { elements.count } else { 0 } }

    func container<Key>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        become(.object(Members()))
        return KeyedEncodingContainer(KeyedParameters(node: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        become(.array([]))
        return UnkeyedParameters(node: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    /// Encodes nil by the encoding's rule for nil; at the top level, nil means no parameters at all.
    func encodeNil() throws { try set(codingPath.isEmpty ? nil : encoding.nilEncoding.text) }

    /// Every container calls this function.
    func encode(_ value: some Encodable) throws {
        guard depth <= Self.maxDepth else { throw EncodingError.tooDeep(at: codingPath) }
        do {
            if let text = try text(of: value) { return try set(text) }
            depth += 1
            defer { depth -= 1 }
            try value.encode(to: self)
        } catch {
            throw EncodingError.failure(error, at: codingPath)
        }
    }

    /// Nil for a value that encodes itself.
    private func text(of value: some Encodable) throws -> String? {
        switch value {
        case let string as String: string
        case is Int, is Int8, is Int16, is Int32, is Int64, is Int128, is UInt, is UInt8, is UInt16, is UInt32,
            is UInt64, is UInt128, is Float, is Double, is Decimal:
            // The cast also unwraps an optional.
            (value as? any CustomStringConvertible)?.description
        case let flag as Bool: encoding.boolEncoding == .literal ? "\(flag)" : flag ? "1" : "0"
        case let url as URL: url.absoluteString
        case let date as Date: try encoding.dateEncoding.rule.apply(date)
        case let data as Data: try encoding.dataEncoding.rule.apply(data)
        default: nil
        }
    }

    private func set(_ text: String?) throws(EncodingError) {
        switch content {
        case .nothing, .absent: content = text.map(Content.text) ?? .absent
        default: throw .refusal("a single value would replace a value that is already encoded", at: codingPath)
        }
    }

    private func become(_ container: Content) {
        switch (content, container) {
        case (.nothing, _), (.absent, _): content = container
        case (.object, .object), (.array, .array): break
        case (_, .array): refuse(.refusal("elements would replace a value that is already encoded", at: codingPath))
        default: refuse(.refusal("values with keys would replace a value that is already encoded", at: codingPath))
        }
    }

    private func refuse(_ error: EncodingError) { defect = defect ?? error }

    /// Adds a node to this object or array; an inherited one contains the values of a superclass.
    fileprivate func adding(_ key: any CodingKey, isInherited: Bool = false) -> ParameterNode {
        guard depth < Self.maxDepth else {
            // This function cannot throw, so the node records the error, and a detached node takes deeper values.
            refuse(EncodingError.tooDeep(at: codingPath))
            return ParameterNode(encoding, at: codingPath, depth: Self.maxDepth + 1)
        }
        let node = ParameterNode(encoding, at: codingPath + [key], depth: depth + 1)
        switch content {
        case .object(var members):
            content = .nothing  // Avoids a copy while the storage grows.
            members.set(node, for: isInherited ? nil : key.stringValue)
            content = .object(members)
        case .array(var elements):
            content = .nothing  // Avoids a copy while the storage grows.
            elements.append(node)
            content = .array(elements)
        case .nothing, .absent, .text: break
        }
        return node
    }

    /// The pairs of one node; nil when the encoding omits the node.
    ///
    /// - Parameter key: nil for the parameters as a whole.
    func text(
        _ escaper: PercentEscaper, key: String? = nil, at path: [any CodingKey] = []
    ) throws -> String? {
        if let defect { throw defect }
        switch (content, key) {
        case (.absent, _), (.nothing, nil): return nil
        case (.object(let members), _) where key == nil || !members.list.isEmpty:
            return try joined(members, escaper, below: key, at: path)
        case (_, nil):
            throw EncodingError.refusal("it has no key: put it into a dictionary, [\"name\": value]", at: path)
        case (.text(let text), let key?): return try pair(key, text, escaper)
        case (.array(let elements), let key?) where !elements.isEmpty:
            let segments = try elements.enumerated().compactMap { index, element in
                let elementKey = try encoding.arrayEncoding.rule.apply((key, index))
                return try element.text(escaper, key: elementKey, at: path + [ParameterKey(intValue: index)])
            }
            return segments.isEmpty ? nil : segments.joined(separator: "&")
        case (.nothing, let key?), (.object, let key?), (.array, let key?):
            switch encoding.emptyEncoding {
            case .dropKey: return nil
            case .dropValue: return try pair(key, "", escaper)
            case .refuse: throw EncodingError.refusal("it is empty", at: path)
            }
        }
    }

    private func joined(
        _ members: Members, _ escaper: PercentEscaper, below key: String?, at path: [any CodingKey]
    ) throws -> String? {
        var segments = try flattened(members, at: path).compactMap { name, node in
            let memberKey = try key.map { try $0 + encoding.keyPathEncoding.rule.apply(name) } ?? name
            return try node.text(escaper, key: memberKey, at: path + [ParameterKey(stringValue: name)])
        }
        if encoding.alphabetizeKeyValuePairs { segments.sort() }
        return segments.isEmpty ? nil : segments.joined(separator: "&")
    }

    /// The values of an object and its superclass, in the order of encoding.
    private func flattened(
        _ members: Members, at path: [any CodingKey]
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
                        "a class and its superclass both encode this key",
                        at: path + [ParameterKey(stringValue: value.key)])
                }
                all.append(value)
            }
        }
        return all
    }

    private func pair(_ key: String, _ text: String, _ escaper: PercentEscaper) throws -> String {
        let key = try encoding.keyEncoding.rule.apply(key)
        var pair = ""
        pair.reserveCapacity(key.utf8.count + text.utf8.count + 1)
        escaper.escape(key, into: &pair)
        pair += "="
        escaper.escape(text, into: &pair)
        return pair
    }
}

private struct KeyedParameters<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: ParameterNode

    var codingPath: [any CodingKey] { node.codingPath }

    func encode(_ value: some Encodable, forKey key: Key) throws { try node.adding(key).encode(value) }
    func encodeNil(forKey key: Key) throws { try node.adding(key).encodeNil() }

    func nestedContainer<NestedKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        existing(key).container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { existing(key).unkeyedContainer() }

    /// Encodes a superclass beside the values of its subclass, because a form has no notation for a superclass.
    func superEncoder() -> any Encoder { node.adding(ParameterKey(stringValue: "super"), isInherited: true) }
    func superEncoder(forKey key: Key) -> any Encoder { node.adding(key) }

    /// Two containers for one key share the node.
    private func existing(_ key: Key) -> ParameterNode { node.members[key.stringValue] ?? node.adding(key) }

    // The standard library's `encodeIfPresent` would omit nil, before the encoding's rule for nil applies.
    private func encodeOptional(_ value: (some Encodable)?, _ key: Key) throws {
        if let value { try encode(value, forKey: key) } else { try encodeNil(forKey: key) }
    }

    func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: String?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: Int128?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws { try encodeOptional(value, key) }
    func encodeIfPresent(_ value: (some Encodable)?, forKey key: Key) throws { try encodeOptional(value, key) }
}

private struct UnkeyedParameters: UnkeyedEncodingContainer {
    let node: ParameterNode

    var codingPath: [any CodingKey] { node.codingPath }
    var count: Int { node.count }
    private var next: ParameterNode { node.adding(ParameterKey(intValue: count)) }

    func encode(_ value: some Encodable) throws { try next.encode(value) }
    func encodeNil() throws { try next.encodeNil() }

    func nestedContainer<NestedKey>(keyedBy keyType: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        next.container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next.unkeyedContainer() }
    func superEncoder() -> any Encoder { next }
}

struct ParameterKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) { (self.stringValue, intValue) = (stringValue, nil) }
    init(intValue: Int) { (stringValue, self.intValue) = ("\(intValue)", intValue) }
}

extension EncodingError {
    /// The message does not contain the value, which may be a secret.
    static func refusal(
        _ reason: String, at codingPath: [any CodingKey], underlying: (any Error)? = nil
    ) -> EncodingError {
        .invalidValue((), Context(codingPath: codingPath, debugDescription: reason, underlyingError: underlying))
    }

    static func tooDeep(at codingPath: [any CodingKey]) -> EncodingError {
        .refusal("it is nested too deeply, or contains itself", at: codingPath)
    }

    /// An `EncodingError` is not changed.
    static func failure(_ error: any Error, at codingPath: [any CodingKey]) -> EncodingError {
        error as? EncodingError ?? .refusal("\(error)", at: codingPath, underlying: error)
    }

    var reason: String {
        guard case .invalidValue(_, let context) = self else { return "\(self)" }
        let path = context.codingPath.keyPath
        return path.isEmpty ? context.debugDescription : "\(path): \(context.debugDescription)"
    }
}

extension [any CodingKey] {
    /// In the syntax of code: `user.scores[0]`, `user["first name"]`; a long path is shortened in the middle.
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

struct UncheckedParameter: Encodable {
    let value: Any

    func encode(to encoder: any Encoder) throws {
        // `Encodable` is the first case. On Apple platforms, numbers and strings bridge to objects, so they would match
        // the cases for objects.
        func single(_ value: (any Encodable)?) throws {
            var container = encoder.singleValueContainer()
            if let value { try container.encode(value) } else { try container.encodeNil() }
        }
        switch value {
        case let value as any Encodable: try single(value)
        case let values as [String: Any]: try encode(values, to: encoder)
        case let values as [Any]: try encode(values, to: encoder)
        case let value as any Wrapper: try single(value.wrapped)
        case is NSNull: try single(nil)
        // A `Substring`, a `Character` or a `Unicode.Scalar`.
        case let text as any LosslessStringConvertible: try single("\(text)")
        case let text as NSString: try single("\(text)")
        case let number as NSNumber: try single(number.plain)
        default:
            let name = String(describing: type(of: value))
            throw EncodingError.refusal(
                "a value of the type \(name) cannot be encoded: use an Encodable value, or its text",
                at: encoder.codingPath)
        }
    }

    /// Checks the depth, because encoders such as `JSONEncoder` have no limit and would overflow the stack.
    private static func checkDepth(of encoder: any Encoder) throws {
        guard encoder.codingPath.count < 128 else { throw EncodingError.tooDeep(at: encoder.codingPath) }
    }

    private func encode(_ values: [Any], to encoder: any Encoder) throws {
        try Self.checkDepth(of: encoder)
        var container = encoder.unkeyedContainer()
        for value in values { try container.encode(UncheckedParameter(value: value)) }
    }

    private func encode(_ values: [String: Any], to encoder: any Encoder) throws {
        try Self.checkDepth(of: encoder)
        var container = encoder.container(keyedBy: ParameterKey.self)
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            try container.encode(UncheckedParameter(value: value), forKey: ParameterKey(stringValue: key))
        }
    }
}

private protocol Wrapper {
    var wrapped: UncheckedParameter? { get }
}

extension Optional: Wrapper {
    fileprivate var wrapped: UncheckedParameter? { map { UncheckedParameter(value: $0) } }
}

extension NSNumber {
    /// The number as a Swift value, which distinguishes true from 1.
    fileprivate var plain: any Encodable {
        switch String(cString: objCType) {
        case "c": boolValue
        case "d", "f": doubleValue
        case "Q": uint64Value
        default: int64Value
        }
    }
}
