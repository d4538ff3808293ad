// How parameters become the text of a query or a form.
import Foundation

/// How parameters become the text of a query or of an `application/x-www-form-urlencoded` body.
///
/// Options, names and defaults are those of Alamofire 5's `URLEncodedFormEncoder`, and so is the text, except where
/// Alamofire loses something: here elements are not sorted, keys that are numbers stay keys, and a URL is one text.
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
/// The second form, keys sorted, `key[sub]` for dictionaries and the same key again for each element of an array, is that
/// of Pitaya and of many small libraries.
///
/// Nothing gets lost but what an option says: `nilEncoding` rules what becomes of nil, `emptyEncoding` of arrays and
/// dictionaries without an element. What has no key at all, an array or a single value at the top, is an error. A key that
/// a type encodes again replaces the earlier value, as in `JSONEncoder`. Elements keep their order, and their index,
/// whatever is left out before them.
///
/// Text is percent-encoded in UTF-8 (RFC 3986, section 2.1); letters, digits, `-._~` and `/?` stay.
///
/// ## Concurrency
/// A value, `Sendable`. Two encodings are equal when all their options are; a custom option only equals its copies.
///
/// ## Topics
/// - ``init(alphabetizeKeyValuePairs:arrayEncoding:boolEncoding:dataEncoding:dateEncoding:emptyEncoding:keyEncoding:keyPathEncoding:nilEncoding:spaceEncoding:allowedCharacters:)``
/// - ``encode(_:)``
public struct ParameterEncoding: Sendable, Hashable {
    /// The encoding with every option at its default.
    public static let `default` = ParameterEncoding()

    /// Whether the pairs of each dictionary and each type are sorted; otherwise they keep the order they were encoded in.
    ///
    /// A Swift `Dictionary` has another order in each process; one of values of several types is always sorted by its keys.
    public var alphabetizeKeyValuePairs: Bool
    /// What the keys of an array's elements look like.
    public var arrayEncoding: ArrayEncoding
    /// What true and false look like.
    public var boolEncoding: BoolEncoding
    /// What bytes look like.
    public var dataEncoding: DataEncoding
    /// What dates look like.
    public var dateEncoding: DateEncoding
    /// What becomes of arrays and dictionaries without an element.
    public var emptyEncoding: EmptyEncoding
    /// What becomes of keys.
    public var keyEncoding: KeyEncoding
    /// How the keys of what is nested are put together.
    public var keyPathEncoding: KeyPathEncoding
    /// What becomes of nil.
    public var nilEncoding: NilEncoding
    /// What spaces look like.
    public var spaceEncoding: SpaceEncoding
    /// The characters beside letters, digits and `-._~` that stay as they are.
    ///
    /// Only those of `/?:@!$'()*,;` can: what RFC 3986, section 3.4, allows in a query and what has no meaning in a form.
    /// Others are percent-encoded all the same. `/` and `?` by default.
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

    /// The text of parameters: pairs joined with `&`; empty for an empty dictionary and for nil.
    ///
    /// Numbers are written as Swift writes them (`1.0`, `inf`, `nan`), a `Decimal` in all its digits, a URL as its absolute
    /// string. An enum with associated values is a dictionary, `key[case][_0]`.
    ///
    /// - Parameter parameters: a dictionary, or a type that encodes itself as one.
    /// - Returns: ASCII text, ready for a query or a body.
    /// - Throws: an error that names the key path: of what has no key, of more than 128 levels, of a key with two meanings,
    ///   of what a type or a custom option has thrown.
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
    /// The text of parameters of several types: a literal, or a dictionary of variables, nested as one likes.
    ///
    /// The compiler cannot check the values. Those that can be encoded are: any `Encodable`, a dictionary with text for keys,
    /// an array, an `NSNumber`; nil and `NSNull` are no value.
    ///
    /// - Throws: as ``encode(_:)-(Encodable)``; an error with the key path of any other value.
    @_disfavoredOverload
    public func encode(_ parameters: [String: Any?]) throws(EncodingError) -> String {
        try encode(UncheckedParameter(value: parameters))
    }
}
