// Trees of parameters for tests.
import Foundation

@testable import Convoy

/// A tree of parameters that encodes itself, with literals.
enum ParameterValue: Sendable, Hashable {
    case null
    case bool(Bool)
    case integer(Int)
    case double(Double)
    case string(String)
    case date(Date)
    case data(Data)
    case array([ParameterValue])
    case dictionary([String: ParameterValue])
}

extension ParameterValue: Encodable {
    func encode(to encoder: any Encoder) throws {
        // Each case is encoded by a separate function, because this function is on the stack once for each level.
        switch self {
        case .null: try Self.encode(nil as Bool?, in: encoder.singleValueContainer())
        case .bool(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .integer(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .double(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .string(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .date(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .data(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .array(let values): try Self.encode(values, to: encoder)
        case .dictionary(let values): try Self.encode(values, to: encoder)
        }
    }

    private static func encode(_ value: (some Encodable)?, in container: any SingleValueEncodingContainer) throws {
        var container = container
        if let value { try container.encode(value) } else { try container.encodeNil() }
    }

    private static func encode(_ values: [ParameterValue], to encoder: any Encoder) throws {
        try checkDepth(of: encoder)
        var container = encoder.unkeyedContainer()
        for value in values { try container.encode(value) }
    }

    private static func encode(_ values: [String: ParameterValue], to encoder: any Encoder) throws {
        try checkDepth(of: encoder)
        var container = encoder.container(keyedBy: ParameterKey.self)
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            try container.encode(value, forKey: ParameterKey(key))
        }
    }

    /// Checks the depth for other encoders, which limit it only by their stack.
    static func checkDepth(of encoder: any Encoder) throws {
        guard encoder.codingPath.count < 128 else { throw EncodingError.tooDeep(at: encoder.codingPath) }
    }
}

extension ParameterValue: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByNilLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringInterpolation
{
    init(dictionaryLiteral elements: (String, ParameterValue)...) {
        self = .dictionary(
            Dictionary(elements) { _, _ in preconditionFailure("a literal of parameters has a key twice: remove one") })
    }

    init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
    init(nilLiteral: ()) { self = .null }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(integerLiteral value: Int) { self = .integer(value) }
    init(floatLiteral value: Double) { self = .double(value) }
    init(stringLiteral value: String) { self = .string(value) }
}
