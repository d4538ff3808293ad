// What tells one state of a resource from another: validators, RFC 9110, section 8.8.
import Foundation

/// A strong validator: as long as it is the same, every byte is.
enum Validator: Hashable, Codable, Sendable {
    /// An entity tag, with its quotes (section 8.8.3).
    case entityTag(String)
    /// The moment of the last change, as the server wrote it (section 8.8.2).
    case lastModified(String)

    /// The strong validator in an answer, preferably its entity tag; nil when there is none.
    ///
    /// A field that occurs twice counts as absent: which of the two is meant is unknown.
    ///
    /// - Parameter now: says which century the two-digit years of the oldest form of dates are in.
    init?(of head: ResponseHead, now: Date) {
        if let tag = head.headerFields.onlyValue(of: "ETag"), tag.isStrongEntityTag {
            self = .entityTag(tag)
        } else if let text = Self.strongModificationDate(of: head, now: now) {
            self = .lastModified(text)
        } else {
            return nil
        }
    }

    /// The date of the last change, where a server cannot have changed it once more without another date.
    static func strongModificationDate(of head: ResponseHead, now: Date) -> String? {
        guard let text = head.headerFields.onlyValue(of: "Last-Modified"), let modified = HTTPDate(text, now: now),
            let sent = head.headerFields.onlyValue(of: "Date").flatMap({ HTTPDate($0, now: now) }),
            // Within the second of a change there may be another one (section 8.8.2.2).
            modified.secondsSince1970 < sent.secondsSince1970
        else { return nil }
        return text
    }

    /// The value of an `If-Range` field (section 13.1.5).
    var fieldValue: String {
        switch self {
        case .entityTag(let text), .lastModified(let text): text
        }
    }

    /// Whether it is what its name says, wherever it comes from.
    var isSound: Bool {
        switch self {
        case .entityTag(let text): text.isStrongEntityTag
        case .lastModified(let text):
            text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && HTTPDate(text, now: Date()) != nil
        }
    }

    /// What it says something of: the resource that sent it, and no other to which a redirect leads the next time
    /// (RFC 9110, section 8.8.1).
    ///
    /// As a hash, because a URL may have a secret in it. Beside an entity tag the query does not count: links to which
    /// servers redirect are signed each time anew.
    func source(_ url: URL) -> String {
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            return SHA256.digest(of: Data(url.absoluteString.utf8)).hexadecimal
        }
        if case .entityTag = self { components.query = nil }
        components.user = nil
        components.password = nil
        components.fragment = nil
        components.scheme = url.scheme?.lowercased()
        if components.percentEncodedPath.isEmpty { components.percentEncodedPath = "/" }
        return SHA256.digest(of: Data((components.string ?? url.absoluteString).utf8)).hexadecimal
    }

    /// Whether an answer is about the same representation: it has this very validator.
    ///
    /// A weak entity tag is another one than every strong one. An answer without the validator is of no known
    /// representation, and ranges are put together only when all of them have the same strong one (section 15.3.7.3): a
    /// server that ignores `If-Range` and names no version may send a range of anything.
    func matches(_ head: ResponseHead) -> Bool {
        let name =
            switch self {
            case .entityTag: "ETag"
            case .lastModified: "Last-Modified"
            }
        // Bytes, for strings are equal already when they mean the same characters.
        return head.headerFields.onlyValue(of: name)?.utf8.elementsEqual(fieldValue.utf8) == true
    }
}

extension HeaderFields {
    /// The value of a field that occurs once.
    func onlyValue(of name: String) -> String? {
        let values = values(of: name)
        return values.count == 1 ? values.first?.trimmingBlanks : nil
    }
}

extension String {
    /// Whether this is an entity tag without `W/`; any two quotes are, with characters between them that may be there.
    var isStrongEntityTag: Bool {
        let (quote, bytes) = (UInt8(ascii: "\""), utf8)
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return false }
        return bytes.dropFirst().dropLast().allSatisfy { $0 > 0x20 && $0 != quote && $0 != 0x7F }
    }

    /// Whether this is an entity tag, with `W/` or without it; `*`, which stands for any, is none.
    var isEntityTag: Bool {
        isStrongEntityTag || utf8.starts(with: "W/".utf8) && String(Substring(utf8.dropFirst(2))).isStrongEntityTag
    }
}
