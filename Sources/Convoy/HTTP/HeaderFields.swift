// Header fields: RFC 9110, section 5.

/// Header fields in the order they were added, with case-insensitive names, each with one value or several.
///
/// ```swift
/// var fields: HeaderFields = ["Accept": "application/json"]
/// fields.add("Accept", "text/plain")
/// fields["accept"]            // "application/json, text/plain"
/// ```
///
/// The initializers check nothing. A field with CR, LF or NUL, or with a name that is not a token, makes its request
/// invalid (``Request/defect``).
public struct HeaderFields: Sendable, Hashable, ExpressibleByDictionaryLiteral, RandomAccessCollection {
    /// One field line: a name and a value.
    public struct Field: Sendable, Hashable {
        /// The name as given; ``HeaderFields/subscript(_:)->String?`` finds a value by its name without regard to case.
        public var name: String
        /// The value as given.
        public var value: String
        /// Whether the caller has marked the value as a secret.
        public var isMarkedSecret: Bool

        /// Whether the value is never shown and never follows a redirect to another origin.
        ///
        /// True for a marked field, and for `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`. Mark any
        /// other credential with ``Request/secretHeader(_:_:)``: a field such as `X-Api-Key`, whose name indicates a
        /// secret, does not follow such a redirect either, but it is shown.
        public var isSecret: Bool { isMarkedSecret || HeaderFields.isSecret(name) }

        package var isBoundToOrigin: Bool { isSecret || SecretWords.standard.isSecret(name) }

        /// Whether the field declares where the body ends, so that transports write it themselves.
        var isFraming: Bool {
            name.equalsIgnoringCase("Content-Length") || name.equalsIgnoringCase("Transfer-Encoding")
        }

        /// Makes a field line.
        public init(name: String, value: String, isMarkedSecret: Bool = false) {
            self.name = name
            self.value = value
            self.isMarkedSecret = isMarkedSecret
        }

        /// Compares bytes, because servers do; strings that differ only in their composition are equal in Swift.
        public static func == (left: Field, right: Field) -> Bool {
            left.name.hasBytes(of: right.name) && left.value.hasBytes(of: right.value)
                && left.isMarkedSecret == right.isMarkedSecret
        }

        /// Hashes the bytes.
        public func hash(into hasher: inout Hasher) {
            name.hashBytes(into: &hasher)
            value.hashBytes(into: &hasher)
        }
    }

    private var fields: [Field]

    /// Makes empty header fields.
    public init() { fields = [] }

    /// Makes header fields from name and value pairs, in order; a name may occur several times.
    public init(_ pairs: some Sequence<(String, String)>) { fields = pairs.map { Field(name: $0, value: $1) } }

    /// Makes header fields from a literal, in order; a name may occur several times.
    public init(dictionaryLiteral elements: (String, String)...) { self.init(elements) }

    /// The values of a name joined with `", "` (RFC 9110, section 5.3), or nil; setting replaces all of them.
    ///
    /// - Complexity: O(*n*) for *n* fields.
    public subscript(_ name: String) -> String? {
        get {
            var joined: String?
            for field in fields where field.name.equalsIgnoringCase(name) {
                joined = joined.map { $0 + ", " + field.value } ?? field.value
            }
            return joined
        }
        set {
            guard let newValue else { return fields.removeAll { $0.name.equalsIgnoringCase(name) } }
            guard let first = fields.firstIndex(where: { $0.name.equalsIgnoringCase(name) }) else {
                return add(name, newValue)
            }
            fields[first].value = newValue
            fields = fields[...first] + fields[(first + 1)...].filter { !$0.name.equalsIgnoringCase(name) }
        }
    }

    /// All values of a name, in order and unjoined; empty without a field of that name.
    public func values(of name: String) -> [String] {
        fields.compactMap { $0.name.equalsIgnoringCase(name) ? $0.value : nil }
    }

    /// Appends a field line; earlier values of the name remain, and a secret one is never shown (``Field/isSecret``).
    public mutating func add(_ name: String, _ value: String, isSecret: Bool = false) {
        fields.append(Field(name: name, value: value, isMarkedSecret: isSecret))
    }

    mutating func append(_ field: Field) { fields.append(field) }

    mutating func extendLast(_ text: String) {
        guard !fields.isEmpty else { return }
        fields[fields.count - 1].value += text
    }

    mutating func reserve() { fields.reserveCapacity(10) }

    package mutating func removeAll(where isMeant: (Field) -> Bool) { fields.removeAll(where: isMeant) }

    /// Whether there is a field of that name.
    public func contains(_ name: String) -> Bool { fields.contains { $0.name.equalsIgnoringCase(name) } }

    var defect: String? {
        for field in fields {
            guard field.name.isHTTPToken else {
                return "the header field name \(field.name.debugDescription) is not a token"
            }
            // The message does not quote the value, which may be a secret.
            if field.value.utf8.contains(where: { $0 == 0x0D || $0 == 0x0A || $0 == 0 }) {
                return "the value of the header field \(field.name) contains CR, LF or NUL"
            }
        }
        return nil
    }

    // Trimmed and without empty members. Commas inside quoted strings do not separate members.
    package func listMembers(of name: String) -> [String] {
        var members: [String] = []
        for field in self where field.name.equalsIgnoringCase(name) {
            let parts = field.value.parts(separator: ",")
            members = members.isEmpty ? parts : members + parts
        }
        return members
    }

    // Nil when the field is missing or has several different values. Equal values count as one, in separate lines or
    // joined: URLSession joins lines, and joined values cannot always be separated again.
    func soleValue(of name: String) -> String? {
        var sole: String?
        for value in values(of: name) {
            let value = value.trimmingBlanks.halfIfDoubled
            guard sole == nil || sole == value else { return nil }
            sole = value
        }
        return sole
    }

    /// The position of the first field.
    public var startIndex: Int { fields.startIndex }
    /// The position after the last field.
    public var endIndex: Int { fields.endIndex }
    /// The field at a position from `startIndex` up to, not including, `endIndex`.
    public subscript(position: Int) -> Field { fields[position] }
}

extension HeaderFields.Field: CustomStringConvertible, CustomReflectable {
    /// Name and value in one line; the value of a secret field is replaced.
    public var description: String { "\(name): \(shownValue)".oneLine }
    // A URL loses its user name and its password. `Location`, `Content-Location`, `Referer` and `Link` also lose the
    // values of query and fragment whose names indicate a secret.
    package var shownValue: String {
        guard !isSecret else { return "<redacted>" }
        guard value.utf8.contains(where: { "@?#".utf8.contains($0) }) else { return value }
        if ["Location", "Content-Location", "Referer"].contains(where: { $0.equalsIgnoringCase(name) }) {
            return SecretWords.standard.redacted(reference: value)
        }
        if name.equalsIgnoringCase("Link") { return SecretWords.standard.redacted(links: value) }
        guard value.utf8.contains(UInt8(ascii: "@")) else { return value }
        var reference = URLReference(value)
        reference.dropUserInfo()
        return reference.text
    }
    /// Contains only the description, because a reflection would show secrets.
    public var customMirror: Mirror { Mirror(self, children: ["field": description]) }
}

extension HeaderFields: CustomStringConvertible, CustomReflectable {
    /// The fields, one a line, with the values of secret fields replaced.
    public var description: String { map(\.description).joined(separator: "\n") }
    /// The fields' descriptions.
    public var customMirror: Mirror { Mirror(self, unlabeledChildren: map(\.description)) }

    static func isSecret(_ name: String) -> Bool {
        ["authorization", "cookie", "proxy-authorization", "set-cookie"].contains { $0.equalsIgnoringCase(name) }
    }
}

extension String {
    /// Whether two strings are equal when ASCII letters are compared without case, as HTTP compares names.
    package func equalsIgnoringCase(_ other: String) -> Bool {
        equals(other) { left, right in left == right || left ^ right == 0x20 && (left | 0x20).isASCIILetter }
    }

    /// `==` also accepts other bytes for the same characters, such as é as one scalar and as two.
    package func hasBytes(of other: String) -> Bool { equals(other, by: ==) }

    // Compares the strings' storage directly, because names are compared for each field of each message.
    @inline(__always)
    private func equals(_ other: String, by isEqual: (UInt8, UInt8) -> Bool) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let result: Bool?? = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in
                for index in 0..<left.count where !isEqual(left[index], right[index]) { return false }
                return true
            }
        }
        return (result ?? nil) ?? utf8.elementsEqual(other.utf8, by: isEqual)
    }

    fileprivate func hashBytes(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(utf8.count)
    }

    /// The parts of a field value between separators outside quoted strings, trimmed and without empty parts.
    package func parts(separator: Unicode.Scalar) -> [String] {
        // Most lists have one part, which needs no parser.
        guard utf8.contains(UInt8(ascii: separator)) else { return trimmedBlanks.isEmpty ? [] : [trimmingBlanks] }
        var (scanner, parts) = (FieldScanner(utf8), [String]())
        while scanner.peek != nil {
            let start = scanner.position
            scanner.skip(to: separator)
            parts.append(String(decoding: scanner.bytes[start..<scanner.position], as: UTF8.self).trimmingBlanks)
            scanner.position += 1
        }
        return parts.filter { !$0.isEmpty }
    }

    /// `a, a` becomes `a`, because URLSession joins two equal fields so; other text is unchanged.
    fileprivate var halfIfDoubled: String {
        guard utf8.count >= 4, utf8.count.isMultiple(of: 2) else { return self }
        let size = utf8.count / 2 - 1
        let half = utf8.prefix(size)
        guard utf8.dropFirst(size).prefix(2).elementsEqual(", ".utf8), utf8.dropFirst(size + 2).elementsEqual(half)
        else { return self }
        return String(half) ?? self
    }
}

extension Optional where Wrapped == String {
    func hasBytes(of other: String?) -> Bool {
        guard let self, let other else { return self == nil && other == nil }
        return self.hasBytes(of: other)
    }
}

extension StringProtocol where SubSequence == Substring {
    // In bytes: other Unicode white space is part of a value, and a blank with a combining mark is one `Character`.
    var trimmedBlanks: Substring {
        let bytes = self[...].utf8
        guard let first = bytes.firstIndex(where: { !$0.isBlank }), let last = bytes.lastIndex(where: { !$0.isBlank })
        else { return "" }
        return Substring(bytes[first...last])
    }

    package var trimmingBlanks: String { String(trimmedBlanks) }
}
