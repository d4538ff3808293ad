// The options of a parameter encoding. Each has named rules, and most accept a custom rule.
import Foundation

extension ParameterEncoding {
    /// How the keys of an array's elements are written.
    public struct ArrayEncoding: Sendable, Hashable {
        let rule: Rule<(key: String, index: Int), String>

        /// `key[]=a&key[]=b`; the default.
        public static let brackets = custom { key, _ in key + "[]" }
        /// `key=a&key=b`: the key is repeated.
        public static let noBrackets = custom { key, _ in key }
        /// `key[0]=a&key[1]=b`, which keeps the dictionaries of an array apart.
        public static let indexInBrackets = custom { key, index in "\(key)[\(index)]" }

        /// Your own rule, which receives the key of the array and the index of the element.
        public static func custom(_ encode: @escaping @Sendable (_ key: String, _ index: Int) -> String) -> Self {
            Self(rule: Rule { encode($0.key, $0.index) })
        }
    }

    /// How true and false are written.
    public enum BoolEncoding: Sendable, Hashable {
        /// `1` and `0`; the default.
        case numeric
        /// `true` and `false`.
        case literal
    }

    /// How bytes are written.
    public struct DataEncoding: Sendable, Hashable {
        let rule: Rule<Data, String?>

        /// Base64; the default.
        public static let base64 = custom { $0.base64EncodedString() }
        /// The encoding of `Data` itself: an array of numbers.
        public static let deferredToData = Self(rule: Rule { _ in nil })

        /// Your own rule.
        ///
        /// An error that it throws ends the encoding.
        public static func custom(_ encode: @escaping @Sendable (Data) throws -> String) -> Self {
            Self(rule: Rule { try encode($0) })
        }
    }

    /// How dates are written.
    public struct DateEncoding: Sendable, Hashable {
        let rule: Rule<Date, String?>

        /// The encoding of `Date` itself: seconds since 2001-01-01, as a decimal number; the default.
        public static let deferredToDate = Self(rule: Rule { _ in nil })
        /// Seconds since 1970-01-01, as a decimal number.
        public static let secondsSince1970 = custom { "\($0.timeIntervalSince1970)" }
        /// Milliseconds since 1970-01-01, as a decimal number.
        public static let millisecondsSince1970 = custom { "\($0.timeIntervalSince1970 * 1000)" }
        /// `2001-01-01T00:02:03Z` (RFC 3339), in whole seconds.
        public static let iso8601 = custom { $0.formatted(.iso8601) }

        /// The text that a formatter returns.
        ///
        /// You must not change the formatter afterwards.
        public static func formatted(_ formatter: DateFormatter) -> Self { custom { formatter.string(from: $0) } }

        /// Your own rule.
        ///
        /// An error that it throws ends the encoding.
        public static func custom(_ encode: @escaping @Sendable (Date) throws -> String) -> Self {
            Self(rule: Rule { try encode($0) })
        }
    }

    /// How empty arrays and dictionaries are written, for which a query has no notation.
    public enum EmptyEncoding: Sendable, Hashable {
        /// Leaves out the empty value together with its key; the default.
        case dropKey
        /// Sends the key without a value: `key=`.
        case dropValue
        /// Fails with an error that names the key path.
        case refuse
    }

    /// How nested keys are joined.
    public struct KeyPathEncoding: Sendable, Hashable {
        let rule: Rule<String, String>

        /// `parent[child][grandchild]`; the default.
        public static let brackets = custom { "[\($0)]" }
        /// `parent.child.grandchild`.
        public static let dots = custom { ".\($0)" }

        /// Your own rule.
        ///
        /// The function returns the text that is appended to a key for the nested key.
        public static func custom(_ encode: @escaping @Sendable (_ subkey: String) -> String) -> Self {
            Self(rule: Rule(encode))
        }
    }

    /// How nil is written.
    public enum NilEncoding: Sendable, Hashable {
        /// Leaves out the key; the default.
        case dropKey
        /// Sends the key without a value: `key=`.
        case dropValue
        /// Sends the key with `null`.
        case null
        /// Sends the key with your value.
        case custom(String)

        var text: String? {
            switch self {
            case .dropKey: nil
            case .dropValue: ""
            case .null: "null"
            case .custom(let text): text
            }
        }
    }

    /// How spaces are written.
    public enum SpaceEncoding: Sendable, Hashable {
        /// `%20`; the default.
        case percentEscaped
        /// `+`, as browsers send forms.
        case plusReplaced
    }
}

/// A function in an object, so that options can be compared: two rules are equal if they are the same object.
final class Rule<Input, Output>: Sendable, Hashable {
    let apply: @Sendable (Input) throws -> Output

    init(_ apply: @escaping @Sendable (Input) throws -> Output) { self.apply = apply }

    static func == (left: Rule, right: Rule) -> Bool { left === right }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
