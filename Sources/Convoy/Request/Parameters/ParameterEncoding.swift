// The encoding of parameters as a query or a form.
import Foundation

/// Encodes parameters as a query or an `application/x-www-form-urlencoded` body.
///
/// Options, names and defaults are those of Alamofire 5's `URLEncodedFormEncoder`. The text is the same except where
/// Alamofire loses information: Convoy does not sort the elements of arrays, keeps numeric keys as keys, and writes a
/// URL as one text.
///
/// ```swift
/// let search: [String: Any] = [
///     "user": ["name": "Ann", "tags": ["b", "a"]], "page": 2,
/// ]
/// try ParameterEncoding.default.encode(search)
/// // (%5B is "[", %5D is "]")
/// // page=2&user%5Bname%5D=Ann&user%5Btags%5D%5B%5D=b&user%5Btags%5D%5B%5D=a
/// try ParameterEncoding(arrayEncoding: .noBrackets).encode(search)
/// // page=2&user%5Bname%5D=Ann&user%5Btags%5D=b&user%5Btags%5D=a
/// ```
///
/// Pitaya and many small libraries write the second form.
///
/// Only options drop values: `nilEncoding` decides about nil, `emptyEncoding` about empty arrays and dictionaries. An
/// array or a single value at the top level has no key, which is an error. If a type encodes a key twice, the later
/// value counts, as in `JSONEncoder`. Elements keep their order and index, even if earlier ones are omitted. Text is
/// percent-encoded in UTF-8 (RFC 3986, section 2.1), except letters, digits, `-._~` and `/?`.
///
/// ## Concurrency
/// A `Sendable` value. Two encodings are equal if all their options are; a custom option equals only its copies.
///
/// ## Topics
/// -
///   ``init(alphabetizeKeyValuePairs:arrayEncoding:boolEncoding:dataEncoding:dateEncoding:emptyEncoding:keyEncoding:keyPathEncoding:nilEncoding:spaceEncoding:allowedCharacters:)``
/// - ``encode(_:)``
public struct ParameterEncoding: Sendable, Hashable {
    /// The encoding with every option at its default.
    public static let `default` = ParameterEncoding()

    /// Whether the pairs of each dictionary and type are sorted; those of a `[String: Any?]` dictionary always are.
    public var alphabetizeKeyValuePairs: Bool
    /// How the keys of an array's elements are written.
    public var arrayEncoding: ArrayEncoding
    /// How true and false are written.
    public var boolEncoding: BoolEncoding
    /// How bytes are written.
    public var dataEncoding: DataEncoding
    /// How dates are written.
    public var dateEncoding: DateEncoding
    /// How empty arrays and dictionaries are written.
    public var emptyEncoding: EmptyEncoding
    /// How keys are written.
    public var keyEncoding: KeyEncoding
    /// How nested keys are joined.
    public var keyPathEncoding: KeyPathEncoding
    /// How nil is written.
    public var nilEncoding: NilEncoding
    /// How spaces are written.
    public var spaceEncoding: SpaceEncoding
    /// The characters that are not percent-encoded, besides letters, digits and `-._~`; `/` and `?` by default.
    ///
    /// Only characters of `/?:@!$'()*,;` count: RFC 3986 allows them in a query, and a form has no meaning for them.
    public var allowedCharacters: Set<Character>

    /// Makes an encoding; each option has Alamofire's default.
    public init(
        alphabetizeKeyValuePairs: Bool = true, arrayEncoding: ArrayEncoding = .brackets,
        boolEncoding: BoolEncoding = .numeric, dataEncoding: DataEncoding = .base64,
        dateEncoding: DateEncoding = .deferredToDate, emptyEncoding: EmptyEncoding = .dropKey,
        keyEncoding: KeyEncoding = .useDefaultKeys, keyPathEncoding: KeyPathEncoding = .brackets,
        nilEncoding: NilEncoding = .dropKey, spaceEncoding: SpaceEncoding = .percentEscaped,
        allowedCharacters: Set<Character> = ["/", "?"]
    ) {
        self.alphabetizeKeyValuePairs = alphabetizeKeyValuePairs
        self.arrayEncoding = arrayEncoding
        self.boolEncoding = boolEncoding
        self.dataEncoding = dataEncoding
        self.dateEncoding = dateEncoding
        self.emptyEncoding = emptyEncoding
        self.keyEncoding = keyEncoding
        self.keyPathEncoding = keyPathEncoding
        self.nilEncoding = nilEncoding
        self.spaceEncoding = spaceEncoding
        self.allowedCharacters = allowedCharacters
    }

    /// Encodes parameters as pairs joined with `&`, in ASCII; empty for an empty dictionary or nil.
    ///
    /// Numbers are written as in Swift (`1.0`, `inf`, `nan`), a `Decimal` with all its digits, a URL as its absolute
    /// string, an enum with associated values as a dictionary, `key[case][_0]`.
    ///
    /// - Parameter parameters: a dictionary, or a type that encodes itself as one.
    /// - Throws: an error that names the key path, for a value without a key, more than 128 levels, a key that is
    ///   encoded twice in incompatible ways, or an error of a type or a custom option.
    /// - Complexity: O(*n* log *n*) for *n* values.
    public func encode(_ parameters: some Encodable) throws(EncodingError) -> String {
        let root = ParameterNode(self)
        do {
            try root.encode(parameters)
            return try root.text(escaper) ?? ""
        } catch {
            throw .failure(error, at: [])
        }
    }

    private var escaper: PercentEscaper {
        let choosable = "/?:@!$'()*,;".filter(allowedCharacters.contains)
        return PercentEscaper(
            allowed: "-._~\(choosable)", writesSpaceAsPlus: spaceEncoding == .plusReplaced)
    }

    /// Encodes parameters from a dictionary of nested values of any type, which the compiler cannot check.
    ///
    /// Allowed are any `Encodable`, a text such as a `Substring`, a `Character` or an `NSString`, a dictionary with
    /// string keys, an array, an `NSNumber`, nil and `NSNull`.
    ///
    /// - Throws: as ``encode(_:)-(Encodable)``, and an error with the key path for any other value.
    @_disfavoredOverload
    public func encode(_ parameters: [String: Any?]) throws(EncodingError) -> String {
        try encode(UncheckedParameter(value: parameters))
    }

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

        /// Your own rule; an error that it throws ends the encoding.
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

        /// The text of a formatter, which you must not change afterwards.
        public static func formatted(_ formatter: DateFormatter) -> Self { custom { formatter.string(from: $0) } }

        /// Your own rule; an error that it throws ends the encoding.
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

    /// How keys are written, from the complete key before percent-encoding: `parentKey[childKey][]`.
    public struct KeyEncoding: Sendable, Hashable {
        let rule: Rule<String, String>

        /// The keys unchanged; the default.
        public static let useDefaultKeys = custom { $0 }
        /// `oneTwoThree` becomes `one_two_three`, `userID[firstName]` becomes `user_id[first_name]`.
        ///
        /// A word begins at an upper-case letter after a lower-case one, and at the last of several upper-case letters
        /// before a lower-case one: `myURLProperty` becomes `my_url_property`.
        public static let convertToSnakeCase = custom { $0.separatingWords(with: "_") }
        /// `oneTwoThree` becomes `one-two-three`.
        public static let convertToKebabCase = custom { $0.separatingWords(with: "-") }
        /// `oneTwoThree` becomes `OneTwoThree`: only the first letter of the complete key changes.
        public static let capitalized = custom { $0.prefix(1).uppercased() + $0.dropFirst() }
        /// `oneTwoThree` becomes `ONETWOTHREE`.
        public static let uppercased = custom { $0.uppercased() }
        /// `oneTwoThree` becomes `onetwothree`.
        public static let lowercased = custom { $0.lowercased() }

        /// Your own rule, which receives the complete key.
        public static func custom(_ encode: @escaping @Sendable (_ key: String) -> String) -> Self {
            Self(rule: Rule(encode))
        }
    }

    /// How nested keys are joined.
    public struct KeyPathEncoding: Sendable, Hashable {
        let rule: Rule<String, String>

        /// `parent[child][grandchild]`; the default.
        public static let brackets = custom { "[\($0)]" }
        /// `parent.child.grandchild`.
        public static let dots = custom { ".\($0)" }

        /// Your own rule, which returns the text that is appended to a key for the nested key.
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

extension String {
    /// Brackets and dots stay, and start a new word.
    fileprivate func separatingWords(with separator: String) -> String {
        let scalars = Array(unicodeScalars)
        var result = ""
        var start = 0
        for end in scalars.indices where "[].".unicodeScalars.contains(scalars[end]) {
            result += scalars[start..<end].words.joined(separator: separator)
            result.unicodeScalars.append(scalars[end])
            start = end + 1
        }
        return result + scalars[start...].words.joined(separator: separator)
    }
}

extension ArraySlice<Unicode.Scalar> {
    fileprivate var words: [String] {
        var starts = [startIndex]
        var next = startIndex + 1
        while next < endIndex, let capital = self[next...].firstIndex(where: \.isCapital) {
            starts.append(capital)
            guard let small = self[capital...].firstIndex(where: \.isSmall) else { break }
            // The last of several upper-case letters begins the next word.
            if small > capital + 1 { starts.append(small - 1) }
            next = small + 1
        }
        return zip(starts, starts.dropFirst() + [endIndex]).map { start, end in
            String(String.UnicodeScalarView(self[start..<end])).lowercased()
        }
    }
}

extension Unicode.Scalar {
    fileprivate var isCapital: Bool {
        properties.generalCategory == .uppercaseLetter || properties.generalCategory == .titlecaseLetter
    }

    fileprivate var isSmall: Bool { properties.generalCategory == .lowercaseLetter }
}
