// An independent parser of forms: it reads RFC 7578 strictly and shares no code with the writer.
import Foundation
import Testing

@testable import Convoy

/// A part of a form as a receiver reads it.
struct ReceivedPart: Equatable, Sendable {
    var name: String
    var fileName: String?
    var contentType: String?
    var content: Data
}

enum FormParser {
    struct Malformed: Error {
        let what: String
    }

    /// Parses a body, and rejects every deviation from the format.
    static func parse(_ body: Data, contentType: String) throws -> [ReceivedPart] {
        let prefix = "multipart/form-data; boundary="
        guard contentType.hasPrefix(prefix) else { throw Malformed(what: contentType) }
        let given = contentType.dropFirst(prefix.count)
        let boundary = given.hasPrefix("\"") && given.hasSuffix("\"") ? given.dropFirst().dropLast() : given
        let delimiter = Data("\r\n--\(boundary)".utf8)
        // The first delimiter needs no line end before it (RFC 2046, section 5.1.1).
        var rest = Data("\r\n".utf8) + body
        guard rest.starts(with: delimiter) else { throw Malformed(what: "no delimiter at the beginning") }
        rest = rest.dropFirst(delimiter.count)
        var parts: [ReceivedPart] = []
        while !rest.starts(with: Data("--\r\n".utf8)) {
            guard rest.starts(with: Data("\r\n".utf8)), let end = rest.range(of: delimiter) else {
                throw Malformed(what: "no delimiter behind part \(parts.count)")
            }
            parts.append(try part(rest[rest.startIndex + 2..<end.lowerBound]))
            rest = rest[end.upperBound...]
        }
        guard rest.count == 4 else { throw Malformed(what: "\(rest.count - 4) bytes behind the end") }
        return parts
    }

    private static func part(_ bytes: Data) throws -> ReceivedPart {
        let end: Range<Data.Index>
        if let found = bytes.range(of: Data("\r\n\r\n".utf8)) {
            end = found
        } else {
            throw Malformed(what: "no empty line")
        }
        // CR and LF form one `Character`, so each line is checked by Unicode scalars.
        let lines = try #require(String(data: bytes[..<end.lowerBound], encoding: .utf8)).components(
            separatedBy: "\r\n")
        var part = ReceivedPart(name: "", content: Data(bytes[end.upperBound...]))
        var disposition: String?
        for line in lines {
            guard !line.unicodeScalars.contains(where: { $0 == "\r" || $0 == "\n" || $0 == "\0" }),
                let colon = line.range(of: ": ")
            else { throw Malformed(what: "line \(line.debugDescription)") }
            let value = String(line[colon.upperBound...])
            switch line[..<colon.lowerBound] {
            case "Content-Disposition" where disposition == nil: disposition = value
            case "Content-Type" where part.contentType == nil: part.contentType = value
            default: throw Malformed(what: "field \(line)")
            }
        }
        guard let disposition, disposition.hasPrefix("form-data; name=\"") else { throw Malformed(what: "\(lines)") }
        // A quotation mark ends a value, whatever precedes it.
        let pieces = disposition.split(separator: "\"", omittingEmptySubsequences: false).map(String.init)
        switch pieces.count {
        case 3 where pieces[2].isEmpty: break
        case 5 where pieces[2] == "; filename=" && pieces[4].isEmpty: part.fileName = unescaped(pieces[3])
        default: throw Malformed(what: disposition)
        }
        part.name = unescaped(pieces[1])
        return part
    }

    // The search is literal, because a digit and a following combining mark form one character.
    private static func unescaped(_ text: String) -> String {
        text.replacingOccurrences(of: "%22", with: "\"", options: .literal)
    }
}

extension MultipartForm {
    /// The bytes as they would be sent; their number must be the announced length.
    func rendered(bufferSize: Int = 4_096, sourceLocation: SourceLocation = #_sourceLocation) throws -> Data {
        let body = try prepared().get()
        let bytes = try body.readAll(bufferSize: bufferSize)
        #expect(body.byteCount == Int64(bytes.count), sourceLocation: sourceLocation)
        return bytes
    }

    /// The parts that a receiver reads.
    func received(sourceLocation: SourceLocation = #_sourceLocation) throws -> [ReceivedPart] {
        try FormParser.parse(rendered(sourceLocation: sourceLocation), contentType: contentType)
    }
}
