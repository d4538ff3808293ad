// Transfer and content codings of a response: RFC 9112, section 6, and RFC 9110, section 8.4.
import Foundation

extension ResponseHead {
    /// Requests send no `TE`, so only `chunked` is allowed, once and without parameters (RFC 9112, sections 6.1, 7.1
    /// and 7.4).
    var transferCodingDefect: String? {
        guard headerFields.contains("Transfer-Encoding") else { return nil }
        let codings = headerFields.listMembers(of: "Transfer-Encoding").map(\.lowercasedASCII)
        guard codings.count != 1 || !codings[0].equalsIgnoringCase("chunked") else { return nil }
        let names = codings.isEmpty ? "nothing" : codings.joined(separator: ", ")
        return "the transfer coding of the response is \"\(names.printablePrefix)\", but only chunked is supported"
    }

    /// Without ``ContentCodings/labels``, in the order of application and in lower case.
    fileprivate var contentCodings: [String] {
        headerFields.listMembers(of: "Content-Encoding").map(\.lowercasedASCII)
            .filter { !ContentCodings.labels.contains($0) }
    }

    var coding: String? { contentCodings.isEmpty ? nil : contentCodings.joined(separator: ", ") }

    var hasDecodableCoding: Bool { contentCodings.contains(where: ContentCodings.decodable.contains) }
}

/// The `Content-Length` of a response; several equal lengths count as one (RFC 9110, section 8.6).
struct DeclaredLength {
    private(set) var length: Int64?
    private(set) var defect: String?

    init(_ fields: HeaderFields) {
        for field in fields where field.name.equalsIgnoringCase("Content-Length") {
            var rest = field.value.utf8[...]
            while true {
                let member = rest.prefix { $0 != UInt8(ascii: ",") }
                let digits = Substring(member).trimmedBlanks
                // `Int64(_:)` would accept a sign. It returns nil for a number that is too large.
                if let first = digits.utf8.first, 0x30...0x39 ~= first, let number = Int64(digits) {
                    if let length, length != number {
                        defect = defect ?? "the response has two lengths, \(length) and \(number)"
                    }
                    length = number
                } else {
                    defect = defect ?? "the Content-Length is invalid"
                }
                guard member.endIndex < rest.endIndex else { break }
                rest = rest[member.endIndex...].dropFirst()
            }
        }
    }
}

enum ContentCodings {
    /// No server needs more, and the decoder of each coding uses memory.
    private static let maxCount = 5
    static let decodable: Set = ["gzip", "x-gzip", "deflate", "br", "zstd"]
    /// Names that servers send as a coding although they change no byte of the body.
    fileprivate static let labels: Set = [
        "identity", "none", "utf-8", "utf8", "us-ascii", "iso-8859-1", "7bit", "8bit", "binary", "chunked",
        "aws-chunked",
    ]

    // In the order of application. If the request asks for `identity`, no body is decoded: the codings then describe a
    // stored file, such as a `.gz` that its server labels `gzip`. For any other request, a coding that Convoy cannot
    // decode is an error, unless the request uses `keepingUnknownCodings()`, or its `Accept-Encoding` has the coding or
    // `*`. Then only the codings that were applied after it are decoded. Too many codings are an error without
    // `keepingUnknownCodings()`.
    static func toUndo(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> [String] {
        let codings = head.contentCodings
        guard !codings.isEmpty, head.hasBody(for: request.method), !request.asksForIdentity else { return [] }
        guard codings.count <= maxCount else {
            if request.keepsUnknownCodings { return [] }
            throw RequestError(.badResponse, "\(codings.count) content codings on one body are too many")
        }
        guard let last = codings.lastIndex(where: { !decodable.contains($0) }) else { return codings }
        let (other, accepted) = (codings[last], request.acceptedCodings)
        guard request.keepsUnknownCodings || accepted.contains(other) || accepted.contains("*") else {
            throw RequestError(
                .badResponse,
                "the content coding \"\(other.printablePrefix)\" is not supported; to get its bytes as they are sent, use keepingUnknownCodings()"
            )
        }
        return Array(codings[(last + 1)...])
    }
}

extension Response {
    /// The content coding that the body still has, for example `compress` or `br, aes128gcm`.
    ///
    /// Nil when the body was decoded or had no coding.
    ///
    /// A body that is saved to a file (``Request/saved(to:verifying:existing:permissions:)``) keeps its coding, unless
    /// the request accepts codings, by ``Request/decodingFile()`` or its own `Accept-Encoding`, and Convoy can decode
    /// it. Any other body with an unknown coding keeps that coding if the request uses
    /// ``Request/keepingUnknownCodings()``, or if its `Accept-Encoding` has the coding or `*`. After a request for
    /// `identity` or with a `Range`, a body keeps any coding.
    public var undecodedCoding: String? {
        guard head.hasBody(for: request.method), let undone = try? ContentCodings.toUndo(head, of: request) else {
            return nil
        }
        let left = head.contentCodings.dropLast(undone.count)
        return left.isEmpty ? nil : left.joined(separator: ", ")
    }
}

extension String {
    /// Letters beyond ASCII are not changed.
    fileprivate var lowercasedASCII: String {
        let capitals = UInt8(ascii: "A")...UInt8(ascii: "Z")
        return String(decoding: utf8.map { capitals.contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// The first 40 characters of a server's text, without those that could harm a log or a terminal; `?` for others
    /// beyond ASCII.
    var printablePrefix: String {
        let shown = unicodeScalars.compactMap { scalar -> Unicode.Scalar? in
            scalar.value >= 0x80 ? "?" : (0x20...0x7E).contains(scalar.value) ? scalar : nil
        }
        return String(String.UnicodeScalarView(shown.prefix(40)))
    }
}
