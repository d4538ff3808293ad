// The encoding of parameters as a query or a form.
import Foundation

/// Encodes parameters as a query or an `application/x-www-form-urlencoded` body.
///
/// Options, names and defaults are those of Alamofire 5's `URLEncodedFormEncoder`. The text is the same except where
/// Alamofire loses information. Unlike Alamofire, Convoy does not sort the elements of arrays, keeps numeric keys as
/// keys, and writes a URL as one text.
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
/// Pitaya and many small libraries write the second form: sorted keys, `key[sub]` for dictionaries, and a repeated key
/// for array elements.
///
/// Only options drop values: `nilEncoding` decides about nil, `emptyEncoding` about empty arrays and dictionaries. An
/// array or a single value at the top level has no key, which is an error. If a type encodes a key twice, the later
/// value replaces the earlier, as in `JSONEncoder`. Elements keep their order and their index, even if earlier ones are
/// omitted.
///
/// Text is percent-encoded in UTF-8 (RFC 3986, section 2.1), except letters, digits, `-._~` and `/?`.
///
/// ## Concurrency
/// A `Sendable` value. Two encodings are equal if all their options are equal. A custom option equals only its
/// copies.
///
/// ## Topics
/// -
///   ``init(alphabetizeKeyValuePairs:arrayEncoding:boolEncoding:dataEncoding:dateEncoding:emptyEncoding:keyEncoding:keyPathEncoding:nilEncoding:spaceEncoding:allowedCharacters:)``
/// - ``encode(_:)``
public struct ParameterEncoding: Sendable, Hashable {
    /// The encoding with every option at its default.
    public static let `default` = ParameterEncoding()

    /// Whether the pairs of each dictionary and each type are sorted.
    ///
    /// If false, the pairs are in the order of encoding.
    ///
    /// The order of a Swift `Dictionary` differs from process to process. A `[String: Any?]` dictionary is always
    /// sorted by its keys.
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
    /// The characters that are not percent-encoded, besides letters, digits and `-._~`.
    ///
    /// Only characters of `/?:@!$'()*,;` have an effect. RFC 3986, section 3.4, allows them in a query, and they have
    /// no meaning in a form. Other characters are still percent-encoded. The default is `/` and `?`.
    public var allowedCharacters: Set<Character>

    /// Makes an encoding.
    ///
    /// Each option has Alamofire's default.
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

    /// Encodes parameters as pairs joined with `&`.
    ///
    /// The result is empty for an empty dictionary and for nil.
    ///
    /// Numbers are written as in Swift (`1.0`, `inf`, `nan`), a `Decimal` with all its digits, a URL as its absolute
    /// string. An enum with associated values is written as a dictionary, `key[case][_0]`.
    ///
    /// - Parameter parameters: a dictionary, or a type that encodes itself as one.
    /// - Returns: ASCII text, ready for a query or a body.
    /// - Throws: an error that names the key path. The causes are a value without a key, more than 128 levels, a key
    ///   that is encoded twice in incompatible ways, or an error of a type or a custom option.
    /// - Complexity: O(*n* log *n*) for *n* values.
    public func encode(_ parameters: some Encodable) throws(EncodingError) -> String {
        let root = ParameterNode()
        do {
            try ParameterEncoder(encoding: self, node: root, codingPath: []).encode(parameters)
            return try ParameterText(encoding: self).text(of: root)
        } catch let error as EncodingError {
            throw error
        } catch {
            throw .failure(error, at: [])
        }
    }
    /// Encodes parameters from a dictionary.
    ///
    /// The values may have different types and be nested. The compiler cannot check them. Allowed are any
    /// `Encodable`, a text such as a `Substring`, a `Character` or an `NSString`, a dictionary with string keys, an array
    /// and an `NSNumber`. Nil and `NSNull` are treated as nil.
    ///
    /// - Throws: as ``encode(_:)-(Encodable)``, and an error with the key path for any other value.
    @_disfavoredOverload
    public func encode(_ parameters: [String: Any?]) throws(EncodingError) -> String {
        try encode(UncheckedParameter(value: parameters))
    }
}
