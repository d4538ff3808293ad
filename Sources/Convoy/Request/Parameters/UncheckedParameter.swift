// Parameters whose types are known only at run time: the values of a [String: Any].
import Foundation

/// A value of any type in a tree of parameters.
struct UncheckedParameter: Encodable {
    let value: Any

    func encode(to encoder: any Encoder) throws {
        // `Encodable` is the first case. On Apple platforms, numbers and strings bridge to objects, so they would match
        // the cases for objects.
        switch value {
        case let value as any Encodable: try encode(value, in: encoder.singleValueContainer())
        case let values as [String: Any]: try encode(values, to: encoder)
        case let values as [Any]: try encode(values, to: encoder)
        case let value as any Wrapper: try encode(value.wrapped, in: encoder.singleValueContainer())
        case is NSNull: try encode(nil as Bool?, in: encoder.singleValueContainer())
        // A `Substring`, a `Character` or a `Unicode.Scalar`.
        case let text as any LosslessStringConvertible: try encode("\(text)", in: encoder.singleValueContainer())
        case let text as NSString: try encode("\(text)", in: encoder.singleValueContainer())
        case let number as NSNumber: try encode(number.plain, in: encoder.singleValueContainer())
        default:
            let name = String(describing: type(of: value))
            throw EncodingError.refusal(
                "a value of the type \(name) cannot be encoded: use an Encodable value, or its text",
                at: encoder.codingPath)
        }
    }

    private func encode(_ value: (some Encodable)?, in container: any SingleValueEncodingContainer) throws {
        var container = container
        if let value { try container.encode(value) } else { try container.encodeNil() }
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
            try container.encode(UncheckedParameter(value: value), forKey: ParameterKey(key))
        }
    }
}

/// An optional of any type.
private protocol Wrapper {
    /// The wrapped value; nil when the optional is empty.
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
