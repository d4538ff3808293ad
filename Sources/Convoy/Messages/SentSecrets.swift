// The secrets of a request, which a server may repeat in its response.
import Foundation

/// Replaces secrets in texts that a server or a proxy has chosen.
///
/// All logs, reports and messages use this type.
///
/// A secret may be encoded for a URL, for JSON or for HTML, even several times. The type therefore searches the text as
/// it is, then decodes the text step by step and searches it again.
package struct SentSecrets: Sendable {
    private static let placeholder = Array(SecretWords.placeholder.utf8)
    /// The maximum number of times that a text is decoded.
    ///
    /// Without a limit, a text of nested escapes would take quadratic time.
    private static let decodingCount = 3

    /// Each secret as sent and percent-decoded, and again with plus signs for blanks, as in a form.
    private let secrets: [[UInt8]]

    /// Searches for these secrets.
    ///
    /// Texts of up to three bytes, `true`, `false` and `null` are left out, because ordinary text contains them.
    package init(_ secrets: Set<String>) {
        let decoded = secrets.union(secrets.compactMap(\.removingPercentEncoding))
        let spelled = decoded.union(decoded.map { $0.replacing(" ", with: "+") })
        self.secrets = spelled.subtracting(["true", "false", "null"]).map { Array($0.utf8) }.filter { $0.count > 3 }
    }

    /// Searches for the secrets that requests have sent, and for further ones.
    package init(of requests: some Sequence<PreparedRequest>, and others: Set<String> = []) {
        self.init(requests.reduce(into: others) { $0.formUnion($1.repeatedSecrets) })
    }

    /// The URL for people, without the secrets that its server may repeat.
    package func shown(_ url: URL) -> String { hidden(inURL: url.redactedString) }

    /// The URL with each secret replaced by a text that a URL may contain.
    func hidden(inURL text: String) -> String {
        hidden(in: text).replacing(SecretWords.placeholder, with: "%3Credacted%3E")
    }

    /// The text with each secret replaced, also where the text was clipped inside a secret.
    package func hidden(in text: String) -> String {
        guard !secrets.isEmpty else { return text }
        var escaped = EscapedText(text)
        var found = secrets.flatMap(escaped.ranges)
        for _ in 1...Self.decodingCount where escaped.decode() { found += secrets.flatMap(escaped.ranges) }
        guard !found.isEmpty else { return text }
        let bytes = Array(text.utf8)
        var (shown, end) = ([UInt8](), 0)
        for range in found.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if range.lowerBound >= end { shown += bytes[end..<range.lowerBound] + Self.placeholder }
            end = max(end, range.upperBound)
        }
        return String(decoding: shown + bytes[end...], as: UTF8.self)
    }
}

extension PreparedRequest {
    /// The secrets that the request sends.
    ///
    /// These are the password of the URL, or its user name without one, and the values of parameters, header fields and
    /// body members whose names suggest a secret. The values of the `Digest` scheme are left out, because they are
    /// valid for one request only.
    package func secrets(_ words: SecretWords = .standard) -> Set<String> {
        let parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        let items = (parts?.queryItems ?? []) + (parts?.percentEncodedQueryItems ?? [])
        let values = items.filter { words.isSecret($0.name) }.map(\.value)
        // A form sends a blank as a plus sign.
        let formValues = values.map { $0?.replacing("+", with: " ") }
        let fields = headerFields.filter {
            (HeaderFields.isSecret($0.name) || words.isSecret($0.name)) && !$0.isDigest
        }
        var secrets = parts?.userInfoSecrets ?? []
        for value in values + formValues { if let value { secrets.insert(value) } }
        for word in fields.flatMap(\.secretWordsOfValue) { secrets.insert(word.trimmingCharacters(in: ["\""])) }
        return secrets.union(body?.secrets(words, contentType: headerFields["Content-Type"] ?? "") ?? [])
    }

    /// The secrets that a message must not quote when a server repeats them.
    ///
    /// Values of at most five bytes are left out, because they are mostly ordinary words, as in the cookie
    /// `theme=plain`.
    package var repeatedSecrets: Set<String> { secrets().filter { $0.utf8.count > 5 } }
}

extension URLComponents {
    /// The password, and the credentials as the `Basic` scheme sends them.
    ///
    /// A user name without a password is usually a token, so it is a secret too.
    var userInfoSecrets: Set<String> {
        guard user != nil || password != nil else { return [] }
        let basic = Data("\(user ?? ""):\(password ?? "")".utf8).base64EncodedString()
        let secret = password.flatMap { $0.isEmpty ? nil : $0 } ?? user
        return Set([secret, percentEncodedPassword, basic].compactMap(\.self)).subtracting([""])
    }
}

extension HeaderFields.Field {
    /// Whether the value has credentials of the `Digest` scheme.
    fileprivate var isDigest: Bool {
        name.lowercased().hasSuffix("authorization") && value.lowercased().hasPrefix("digest ")
    }

    /// The words of the value, without the names of cookies and without the scheme of credentials.
    fileprivate var secretWordsOfValue: [Substring] {
        let words = value.split { " ;,".contains($0) }
        if name.equalsIgnoringCase("Cookie") { return words.flatMap(\.valuesOfPair) }
        guard name.lowercased().hasSuffix("authorization"), words.count > 1 else {
            return words + words.flatMap { $0.split(separator: "=") }
        }
        // A word with an equals sign is a parameter, or a token that contains one.
        let credentials = Array(words.dropFirst()) + words.dropFirst().flatMap(\.valuesOfPair)
        guard words[0].lowercased() == "basic", let data = Data(base64Encoded: String(words[1])) else {
            return credentials
        }
        let password = String(decoding: data, as: UTF8.self).split(
            separator: ":", maxSplits: 1, omittingEmptySubsequences: false
        ).dropFirst()
        return credentials + password
    }
}

extension Substring {
    /// The parts of the text between equals signs, without the first part.
    ///
    /// A text without an equals sign is returned complete.
    fileprivate var valuesOfPair: ArraySlice<Substring> {
        let parts = split(separator: "=")
        return parts.count > 1 ? parts.dropFirst() : parts[...]
    }
}

extension RequestBody {
    /// The maximum size of a body that is searched for secrets.
    private static let mostSearchedBytes = 64 << 10
    /// The maximum number of secrets of one body.
    ///
    /// Each is searched for in every text of a server.
    private static let mostSecrets = 100
    /// The minimum length of a secret in bytes, because shorter values are mostly ordinary words.
    private static let shortestSecret = 6

    /// The values of a form or of JSON whose names suggest a secret.
    func secrets(_ words: SecretWords, contentType: String) -> [String] {
        guard let bytes = bytesInMemory, bytes.count <= Self.mostSearchedBytes else { return [] }
        let contentType = contentType.lowercased()
        let values =
            if contentType.contains("json") {
                (try? JSONReader.read(Array(bytes)))?.secrets(words) ?? []
            } else if contentType.hasPrefix("multipart/form-data") {
                words.valuesOfSecrets(multipart: String(decoding: bytes, as: UTF8.self))
            } else if contentType.hasPrefix("application/x-www-form-urlencoded") {
                words.valuesOfSecrets(form: String(decoding: bytes, as: UTF8.self))
            } else {
                [String]()
            }
        let long = values.filter { $0.utf8.count >= Self.shortestSecret }
        return Array(long.sorted { $0.utf8.count > $1.utf8.count }.prefix(Self.mostSecrets))
    }

    /// The bytes in memory; nil for a file or a stream.
    ///
    /// A joined body contributes only its parts in memory.
    private var bytesInMemory: Data? {
        switch self {
        case .data(let data): data
        case .joined(let bodies): bodies.compactMap(\.bytesInMemory).reduce(into: Data()) { $0 += $1 }
        case .file, .stream: nil
        }
    }
}

extension JSONValue {
    /// The texts of members whose own names suggest a secret.
    ///
    /// Numbers are left out, because a short number is part of many texts. A member `key` is left out too, because it
    /// mostly names an entry.
    fileprivate func secrets(_ words: SecretWords) -> [String] {
        switch self {
        case .null, .bool, .number, .string: []
        case .array(let elements): elements.flatMap { $0.secrets(words) }
        case .object(let members):
            members.flatMap { member in
                let isSecret = words.isSecretItself(member.name) && member.name.lowercased() != "key"
                return member.value.secrets(words) + (isSecret ? member.value.texts : [])
            }
        }
    }

    /// The text itself, or the texts in an array; empty for any other value.
    private var texts: [String] {
        switch self {
        case .string(let text): [text]
        case .array(let elements): elements.flatMap { if case .string(let text) = $0 { [text] } else { [String]() } }
        case .null, .bool, .number, .object: []
        }
    }
}

/// A text that knows the place of each decoded byte in the original.
struct EscapedText {
    private static let backslash = UInt8(ascii: "\\")
    private static let controls = ["n": 10, "t": 9, "r": 13, "b": 8, "f": 12] as [Character: UInt8]
    private static let entities = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
    /// The length of the longest entity that is decoded: `&#x0010FFFF;`.
    private static let entityLength = 12
    /// At the end of a clipped text, the beginning of a secret counts if it has at least this many bytes.
    private static let clippedLength = 8

    private var bytes: [UInt8]
    /// For each decoded byte, the offset in the original at which it or its escape starts.
    ///
    /// The last element is the length of the original.
    private var starts: [Int]

    init(_ text: String) {
        bytes = Array(text.utf8)
        starts = Array(0...bytes.count)
    }

    /// The places of a secret in the original.
    ///
    /// A beginning of the secret counts if the text was clipped after it: the text ends there, or continues with three
    /// dots.
    func ranges(of secret: [UInt8]) -> [Range<Int>] {
        guard let first = secret.first else { return [] }
        return bytes.indices.compactMap { (start) -> Range<Int>? in
            guard bytes[start] == first else { return nil }
            var length = 1
            while length < secret.count, start + length < bytes.count, bytes[start + length] == secret[length] {
                length += 1
            }
            let isClipped = length < secret.count && length >= Self.clippedLength && isClipped(at: start + length)
            return length == secret.count || isClipped ? starts[start]..<starts[start + length] : nil
        }
    }

    /// Whether the text ends at an offset, perhaps inside an escape, or has three dots there.
    private func isClipped(at start: Int) -> Bool {
        var end = start
        func skip(atMost count: Int, _ isMeant: (UInt8) -> Bool) {
            for byte in bytes[end...].prefix(count) {
                guard isMeant(byte) else { return }
                end += 1
            }
        }
        let isHex = { (byte: UInt8) in Character(UnicodeScalar(byte)).isHexDigit }
        switch bytes[end...].first {
        case UInt8(ascii: "%"):
            end += 1
            skip(atMost: 1, isHex)
        case Self.backslash:
            end += 1
            skip(atMost: 1) { $0 == UInt8(ascii: "u") }
            skip(atMost: 3, isHex)
        case UInt8(ascii: "&"):
            end += 1
            skip(atMost: Self.entityLength - 2) { $0 == UInt8(ascii: "#") || $0.isASCIILetter || isHex($0) }
        default: break
        }
        return bytes[end...].isEmpty || bytes[end...].starts(with: "...".utf8)
    }

    /// Decodes each escape once.
    ///
    /// - Returns: whether the text had an escape.
    mutating func decode() -> Bool {
        var (decoded, places, index) = ([UInt8](), [Int](), 0)
        while index < bytes.count {
            let escape = escape(at: index)
            if let escape { decoded += escape.bytes } else { decoded.append(bytes[index]) }
            while places.count < decoded.count { places.append(starts[index]) }
            index += escape?.length ?? 1
        }
        defer { (bytes, starts) = (decoded, places + starts.suffix(1)) }
        return decoded.count < bytes.count
    }

    private func escape(at index: Int) -> (bytes: [UInt8], length: Int)? {
        switch bytes[index] {
        case UInt8(ascii: "%"):
            return number(index + 1, digits: 2).map { ([UInt8(truncatingIfNeeded: $0)], 3) }
        case Self.backslash:
            guard index + 1 < bytes.count else { return nil }
            let letter = bytes[index + 1]
            if letter == UInt8(ascii: "u") { return number(index + 2, digits: 4).flatMap(Self.utf8).map { ($0, 6) } }
            if let control = Self.controls[Character(UnicodeScalar(letter))] { return ([control], 2) }
            return "/\"\\".utf8.contains(letter) ? ([letter], 2) : nil
        case UInt8(ascii: "&"):
            let place = bytes[index...].prefix(Self.entityLength)
            guard let end = place.firstIndex(of: UInt8(ascii: ";")) else { return nil }
            return Self.entity(String(decoding: bytes[(index + 1)..<end], as: UTF8.self)).map { ($0, end + 1 - index) }
        default: return nil
        }
    }

    private func number(_ start: Int, digits: Int) -> UInt32? {
        guard start + digits <= bytes.count else { return nil }
        let text = String(decoding: bytes[start..<(start + digits)], as: UTF8.self)
        return text.allSatisfy(\.isHexDigit) ? UInt32(text, radix: 16) : nil
    }

    private static func entity(_ name: String) -> [UInt8]? {
        if let text = entities[name] { return Array(text.utf8) }
        guard name.hasPrefix("#") else { return nil }
        let isHex = name.lowercased().hasPrefix("#x")
        return UInt32(name.dropFirst(isHex ? 2 : 1), radix: isHex ? 16 : 10).flatMap(utf8)
    }

    private static func utf8(_ number: UInt32) -> [UInt8]? { Unicode.Scalar(number).map { Array(String($0).utf8) } }
}
