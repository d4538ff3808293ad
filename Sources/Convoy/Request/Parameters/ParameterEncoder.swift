// The encoder to which parameters encode themselves. It builds a tree of their values.
import Foundation

/// An encoder for one node of the tree, and the single-value container of that node.
struct ParameterEncoder: Encoder, SingleValueEncodingContainer {
    /// The maximum nesting of encoders and containers, two for each nested dictionary or array.
    ///
    /// Without a limit, a cycle of references would overflow the stack.
    static let maxDepth = 256

    let encoding: ParameterEncoding
    let node: ParameterNode
    let codingPath: [any CodingKey]
    var depth = 0

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        node.becomeObject(at: codingPath)
        return KeyedEncodingContainer(KeyedParameters(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.becomeArray(at: codingPath)
        return UnkeyedParameters(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    /// Encodes nil by the encoding's rule for nil; at the top level, nil means no parameters at all.
    func encodeNil() throws { try node.set(codingPath.isEmpty ? nil : encoding.nilEncoding.text, at: codingPath) }

    /// Encodes any value.
    ///
    /// Every container calls this function.
    func encode(_ value: some Encodable) throws {
        guard depth <= Self.maxDepth else { throw EncodingError.tooDeep(at: codingPath) }
        if try encodePlain(value) { return }
        var below = self
        below.depth += 1
        do { try value.encode(to: below) } catch { throw EncodingError.failure(error, at: codingPath) }
    }

    /// Encodes a value that is a single text; false for any other value.
    private func encodePlain(_ value: some Encodable) throws -> Bool {
        let text: String?
        switch value {
        case let string as String: text = string
        case let number as any ParameterNumber: text = number.description
        case let flag as Bool: text = self.text(of: flag)
        case let url as URL: text = url.absoluteString
        case let date as Date: text = try self.text(of: date, as: encoding.dateEncoding.rule)
        case let data as Data: text = try self.text(of: data, as: encoding.dataEncoding.rule)
        default: return false
        }
        guard let text else { return false }
        try node.set(text, at: codingPath)
        return true
    }

    private func text(of flag: Bool) -> String {
        switch encoding.boolEncoding {
        case .numeric: flag ? "1" : "0"
        case .literal: flag ? "true" : "false"
        }
    }

    private func text<Value>(of value: Value, as rule: Rule<Value, String?>) throws -> String? {
        do { return try rule.apply(value) } catch { throw EncodingError.failure(error, at: codingPath) }
    }

    /// The encoder for the value of a key; the caller has added the node of the value to the tree.
    func nested(_ node: ParameterNode, _ key: any CodingKey) -> ParameterEncoder {
        guard depth < Self.maxDepth else {
            // This function cannot throw, so the node records the error. Deeper values are encoded into a detached
            // node, so that the tree does not get deeper.
            self.node.refuse(EncodingError.tooDeep(at: codingPath))
            return ParameterEncoder(
                encoding: encoding, node: ParameterNode(), codingPath: codingPath, depth: Self.maxDepth + 1)
        }
        return ParameterEncoder(encoding: encoding, node: node, codingPath: codingPath + [key], depth: depth + 1)
    }
}

/// A number that is written as its description.
protocol ParameterNumber: CustomStringConvertible {}

extension Int: ParameterNumber {}
extension Int8: ParameterNumber {}
extension Int16: ParameterNumber {}
extension Int32: ParameterNumber {}
extension Int64: ParameterNumber {}
extension Int128: ParameterNumber {}
extension UInt: ParameterNumber {}
extension UInt8: ParameterNumber {}
extension UInt16: ParameterNumber {}
extension UInt32: ParameterNumber {}
extension UInt64: ParameterNumber {}
extension UInt128: ParameterNumber {}
extension Float: ParameterNumber {}
extension Double: ParameterNumber {}
extension Decimal: ParameterNumber {}
