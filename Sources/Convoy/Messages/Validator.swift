// Validators, which distinguish the versions of a resource (RFC 9110, section 8.8).
import Foundation

/// A strong validator: representations with equal strong validators have equal bytes.
enum Validator: Hashable, Codable, Sendable {
    /// An entity tag, with its quotes (RFC 9110, section 8.8.3).
    case entityTag(String)
    /// The date of the last change, in the server's spelling (RFC 9110, section 8.8.2).
    case lastModified(String)

    // Preferably its entity tag. A field that occurs twice counts as absent, because either value could be the right
    // one. `now` determines the century of the two-digit years of the RFC 850 date format.
    init?(of head: ResponseHead, now: Date) {
        if let tag = head.headerFields.onlyValue(of: "ETag"), tag.isStrongEntityTag {
            self = .entityTag(tag)
        } else if let text = Self.strongModificationDate(of: head, now: now) {
            self = .lastModified(text)
        } else {
            return nil
        }
    }

    static func strongModificationDate(of head: ResponseHead, now: Date) -> String? {
        guard let text = head.headerFields.onlyValue(of: "Last-Modified"), let modified = HTTPDate(text, now: now),
            let sent = head.headerFields.onlyValue(of: "Date").flatMap({ HTTPDate($0, now: now) }),
            // The resource may change again within the same second (RFC 9110, section 8.8.2.2).
            modified.secondsSince1970 < sent.secondsSince1970
        else { return nil }
        return text
    }

    var fieldValue: String {
        switch self {
        case .entityTag(let text), .lastModified(let text): text
        }
    }

    /// The text may come from a file that another program has changed.
    var isSound: Bool {
        switch self {
        case .entityTag(let text): text.isStrongEntityTag
        case .lastModified(let text):
            text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && HTTPDate(text, now: Date()) != nil
        }
    }

    // A redirect may lead to another resource next time (RFC 9110, section 8.8.1). A hash, because a URL may contain a
    // secret. With an entity tag the signature in the query is ignored, because servers sign links anew each time.
    func source(_ url: URL) -> String {
        var reference = URLReference(url.absoluteString)
        if case .entityTag = self { reference.query = reference.query?.withoutSignature }
        reference.dropUserInfo()
        (reference.scheme, reference.fragment) = (reference.scheme?.lowercased(), nil)
        if reference.path.isEmpty { reference.path = "/" }
        return FileDigest.ofBytes(Data(reference.text.utf8)).hexadecimal
    }

    // A weak entity tag differs from every strong one. Ranges are combined only if all have the same strong validator
    // (RFC 9110, section 15.3.7.3). A server that ignores `If-Range` could otherwise send a range of another version.
    func matches(_ head: ResponseHead) -> Bool {
        let name =
            switch self {
            case .entityTag: "ETag"
            case .lastModified: "Last-Modified"
            }
        // The comparison uses bytes, because Swift strings are already equal if they are canonically equivalent.
        return head.headerFields.onlyValue(of: name)?.utf8.elementsEqual(fieldValue.utf8) == true
    }
}

extension HeaderFields {
    func onlyValue(of name: String) -> String? {
        let values = values(of: name)
        return values.count == 1 ? values.first?.trimmingBlanks : nil
    }
}

extension String {
    /// The parameters, in lower case, by which storage services and networks sign links.
    private static let signatureNames: Set = [
        "awsaccesskeyid", "expires", "googleaccessid", "key-pair-id", "ossaccesskeyid", "policy", "se", "sig",
        "signature", "sip", "ske", "skoid", "sks", "skt", "sktid", "skv", "sp", "spr", "sr", "st", "sv", "token",
        "verify",
    ]

    fileprivate var withoutSignature: String? {
        let items = split(separator: "&").filter { item in
            let name = item.prefix { $0 != "=" }.lowercased()
            return !name.hasPrefix("x-amz-") && !name.hasPrefix("x-goog-") && !Self.signatureNames.contains(name)
        }
        return items.isEmpty ? nil : items.joined(separator: "&")
    }

    /// Whether this is an entity tag without `W/`: two quotes with only valid characters between them.
    var isStrongEntityTag: Bool {
        let (quote, bytes) = (UInt8(ascii: "\""), utf8)
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return false }
        return bytes.dropFirst().dropLast().allSatisfy { $0 > 0x20 && $0 != quote && $0 != 0x7F }
    }

    var isEntityTag: Bool {
        isStrongEntityTag || utf8.starts(with: "W/".utf8) && String(Substring(utf8.dropFirst(2))).isStrongEntityTag
    }
}
