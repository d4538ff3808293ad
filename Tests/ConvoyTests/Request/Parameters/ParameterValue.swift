// Trees of parameters for tests.
import Foundation

@testable import Convoy

/// A tree of parameters that encodes itself, with literals.
enum ParameterValue: Sendable, Hashable {
    /// No value: see ``ParameterEncoding/nilEncoding``.
    case null
    /// True or false.
    case bool(Bool)
    /// A whole number.
    case integer(Int)
    /// A number with a fraction; in JSON, infinity and NaN are errors.
    case double(Double)
    /// Text.
    case string(String)
    /// A date, encoded by the rule of the encoding or of the `JSONEncoder`.
    case date(Date)
    /// Bytes, encoded by the rule of the encoding or of the `JSONEncoder`.
    case data(Data)
    /// Values in order.
    case array([ParameterValue])
    /// Values by key; encoded in the order of the keys.
    case dictionary([String: ParameterValue])
}

extension ParameterValue: Encodable {
    /// Encodes the tree; an error names the key path.
    ///
    /// - Throws: the encoder's error, and an `EncodingError` for more than 128 levels.
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
    /// Values by key; a repeated key traps.
    init(dictionaryLiteral elements: (String, ParameterValue)...) {
        self = .dictionary(
            Dictionary(elements) { _, _ in preconditionFailure("a literal of parameters has a key twice: remove one") })
    }

    /// Values in order.
    init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
    /// No value.
    init(nilLiteral: ()) { self = .null }
    /// True or false.
    init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number.
    init(integerLiteral value: Int) { self = .integer(value) }
    /// A number with a fraction.
    init(floatLiteral value: Double) { self = .double(value) }
    /// Text.
    init(stringLiteral value: String) { self = .string(value) }
}
