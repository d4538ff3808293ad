// How the body of an answer is coded, and what is to be undone: RFC 9112, section 6, and RFC 9110, section 8.4.
import Foundation

extension ResponseHead {
    /// Why the end of a body in HTTP/1.1 cannot be told, or nil.
    ///
    /// Requests ask for no transfer coding (`TE`), so nothing but `chunked` may come, once and without parameters
    /// (RFC 9112, sections 6.1, 7.1 and 7.4).
    var transferCodingDefect: String? {
        guard headerFields.contains("Transfer-Encoding") else { return nil }
        let codings = headerFields.listMembers(of: "Transfer-Encoding").map(\.lowercasedASCII)
        guard codings.count != 1 || !codings[0].equalsIgnoringCase("chunked") else { return nil }
        let names = codings.isEmpty ? "nothing" : codings.joined(separator: ", ")
        return "the transfer coding of the answer is \"\(names.printablePrefix)\", where only chunked may be"
    }

    /// The content codings in the order in which they were applied, in lower case; empty for a body as it is.
    fileprivate var contentCodings: [String] {
        headerFields.listMembers(of: "Content-Encoding").map(\.lowercasedASCII)
            .filter { !["identity", "none"].contains($0) }
    }

    /// The content coding of the body, all of it in one spelling; nil for a body as it is.
    var coding: String? {
        let codings = contentCodings
        return codings.isEmpty ? nil : codings.joined(separator: ", ")
    }
}

/// What a transport does with the content codings of bodies, the same for all.
enum ContentCodings {
    /// How many codings a body may have: no server needs more, and each costs memory.
    private static let maxCount = 5
    /// What can be undone where the system has the library.
    static let decodable: Set = ["gzip", "x-gzip", "deflate", "br", "zstd"]
    /// What servers put on files that are stored like that, besides.
    private static let stored: Set = ["compress", "x-compress", "bzip2", "x-bzip2", "xz", "x-xz"]

    /// The codings to be undone, the last one applied last; empty for a body that is kept as it is sent.
    ///
    /// One rule for every destination: a coding that is not known, or too many of them, is an error, unless the request
    /// itself names it in `Accept-Encoding`, or keeps what is not known. A request for `identity` keeps the bytes as they are sent, because the coding
    /// is then the label of a file that is stored so: a `.gz` that its server labels `gzip`.
    ///
    /// - Throws: why the answer cannot be used.
    static func toUndo(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> [String] {
        let codings = head.contentCodings
        guard !codings.isEmpty, head.hasBody(for: request.method) else { return [] }
        guard codings.count <= maxCount else {
            if request.keepsUnknownCodings { return [] }
            throw RequestError(.badResponse, "\(codings.count) content codings on one body are too many")
        }
        let accepted = request.acceptedCodings
        if let unknown = codings.first(where: { !decodable.contains($0) && !stored.contains($0) }) {
            guard request.keepsUnknownCodings || accepted.contains(unknown) || accepted.contains("*") else {
                throw unsupported(unknown)
            }
            return []
        }
        if request.asksForIdentity { return [] }
        if let other = codings.first(where: { !decodable.contains($0) }) {
            guard request.keepsUnknownCodings || accepted.contains(other) || accepted.contains("*") else {
                throw unsupported(other)
            }
            return []
        }
        return codings
    }

    private static func unsupported(_ name: String) -> RequestError {
        RequestError(
            .badResponse,
            "the content coding \"\(name.printablePrefix)\" is not supported; to get its bytes as they are sent, use keepingUnknownCodings()"
        )
    }
}

extension Response {
    /// The content coding that the bytes of the body still have, `compress` or `br, aes128gcm` say; nil when they were decoded
    /// or had none.
    ///
    /// They have one where the request keeps them as they are sent: files as a rule
    /// (``Request/saved(to:verifying:existing:permissions:)``), and bodies whose coding is not known after
    /// ``Request/keepingUnknownCodings()``, or that was named in `Accept-Encoding`.
    public var undecodedCoding: String? {
        guard let coding = head.coding, head.hasBody(for: request.method),
            let undone = try? ContentCodings.toUndo(head, of: request)
        else { return nil }
        return undone.isEmpty ? coding : nil
    }
}

extension ResponseHead {
    /// Whether a body can follow (RFC 9110, section 6.4.1).
    func hasBody(for method: HTTPMethod) -> Bool {
        method != .head && statusCode != 204 && statusCode != 304 && !isInformational
    }
}

extension String {
    /// With the capital letters of ASCII, and no others, made small.
    fileprivate var lowercasedASCII: String {
        let capitals = UInt8(ascii: "A")...UInt8(ascii: "Z")
        return String(decoding: utf8.map { capitals.contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// Its beginning, without what could harm a log or a terminal: it is a server's text.
    ///
    /// Letters that are not ASCII are shown as `?`.
    var printablePrefix: String {
        let shown = unicodeScalars.compactMap { scalar -> Unicode.Scalar? in
            scalar.value >= 0x80 ? "?" : (0x20...0x7E).contains(scalar.value) ? scalar : nil
        }
        return String(String.UnicodeScalarView(shown.prefix(40)))
    }
}
