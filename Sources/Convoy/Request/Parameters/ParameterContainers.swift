// Keyed and unkeyed containers.

/// The container for values with keys.
struct KeyedParameters<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: ParameterEncoder

    var codingPath: [any CodingKey] { encoder.codingPath }

    func encode(_ value: some Encodable, forKey key: Key) throws { try place(for: key).encode(value) }
    func encodeNil(forKey key: Key) throws { try place(for: key).encodeNil() }

    func nestedContainer<NestedKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        existingPlace(for: key).container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        existingPlace(for: key).unkeyedContainer()
    }

    /// Encodes a superclass beside the values of its subclass, because a form has no notation for a superclass.
    func superEncoder() -> any Encoder {
        let node = ParameterNode()
        encoder.node.put(node, for: nil)
        return encoder.nested(node, ParameterKey("super"))
    }

    func superEncoder(forKey key: Key) -> any Encoder { place(for: key) }

    /// Makes a new node, which replaces the key's previous value.
    private func place(for key: Key) -> ParameterEncoder {
        let node = ParameterNode()
        encoder.node.put(node, for: key.stringValue)
        return encoder.nested(node, key)
    }

    /// The existing node of a key, so that two containers for one key share the node.
    private func existingPlace(for key: Key) -> ParameterEncoder {
        guard let node = encoder.node.members[key.stringValue] else { return place(for: key) }
        return encoder.nested(node, key)
    }

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

/// The container for elements without keys.
struct UnkeyedParameters: UnkeyedEncodingContainer {
    let encoder: ParameterEncoder

    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.node.count }

    func encode(_ value: some Encodable) throws { try place().encode(value) }
    func encodeNil() throws { try place().encodeNil() }

    func nestedContainer<NestedKey>(keyedBy keyType: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        place().container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { place().unkeyedContainer() }
    func superEncoder() -> any Encoder { place() }

    private func place() -> ParameterEncoder {
        let (node, key) = (ParameterNode(), ParameterKey(index: count))
        encoder.node.append(node)
        return encoder.nested(node, key)
    }
}
