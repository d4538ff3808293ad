// Parses the header of a response from libcurl's lines.
#if canImport(CLibcurl)
    import Foundation

    // libcurl also passes lines that a strict reader must reject (RFC 9112, sections 5.1 and 6.3): two different
    // lengths, an invalid length, a transfer coding other than `chunked`, names with spaces. <doc:WhatIsAccepted>
    // lists the deviations that this parser accepts.
    struct CurlHeaderParser {
        struct Defect: Error {
            let reason: String
            var isCut = false
        }

        private enum Version: String {
            // Nearly all responses name HTTP/1.1, so it is compared first.
            case http11 = "HTTP/1.1"
            case http10 = "HTTP/1.0"
            case http2 = "HTTP/2"
            case http20 = "HTTP/2.0"
            case http3 = "HTTP/3"

            var hasFrames: Bool { self != .http11 && self != .http10 }
        }

        private struct Lines {
            var version: Version?
            var code = 0
            var fields = HeaderFields()
            var length = DeclaredLength()
            var isCoded = false
            var hasContentCoding = false
            var locationCount = 0
        }

        private let maxBytes: Int64
        private let maxFieldCount: Int
        private let method: HTTPMethod
        private let mayBeHTTP2: Bool
        private var lines = Lines()
        private var fieldCount = 0
        private var byteCount: Int64 = 0
        /// Later lines are trailers.
        private(set) var isComplete = false
        private(set) var lastStatusCode: Int?
        private(set) var framing = BodyFraming.connection
        private(set) var hasContentCoding = false

        enum BodyFraming {
            case length
            case chunks
            case frames
            case connection
        }

        /// - Parameter mayBeHTTP2: whether versions above 1.1 are possible. If false, accepting one would mark the
        ///   connection as shared, and its next request would be sent without a check.
        init(_ options: ConnectionOptions, _ method: HTTPMethod = .get, mayBeHTTP2: Bool = true) {
            (maxBytes, maxFieldCount) = (options.maxHeaderBytes, options.maxHeaderFieldCount)
            (self.method, self.mayBeHTTP2) = (method, mayBeHTTP2)
        }

        var isAtFirstField: Bool { lines.version != nil && lines.fields.isEmpty }

        /// Reads a line, including its line end.
        ///
        /// - Returns: the interim or final head, if this is the empty line that ends its header.
        mutating func take(
            _ line: UnsafeRawBufferPointer, _ known: FieldLineCache? = nil
        ) throws(Defect) -> ResponseHead? {
            byteCount += Int64(line.count)
            guard byteCount <= maxBytes else {
                throw Defect(reason: "the header has more than \(maxBytes) bytes")
            }
            // Some newer versions of libcurl pass on a partial line when the connection ends.
            guard line.last == 0x0a else {
                throw Defect(reason: "the connection was closed in the middle of the header", isCut: true)
            }
            // Trailers count for the size limit and are then dropped (RFC 9110, section 6.5.1).
            if isComplete { return nil }
            let end = line.count - 1
            let bytes = UnsafeRawBufferPointer(rebasing: line[..<(end > 0 && line[end - 1] == 0x0d ? end - 1 : end)])
            guard let version = lines.version else {
                try readStatusLine(bytes)
                return nil
            }
            guard let first = bytes.first else { return try finish(version) }
            if first.isBlank { try fold(bytes) } else { try addField(bytes, known) }
            return nil
        }

        // The reason may be missing. Several spaces count as one (RFC 9112, section 4). As in browsers, `HTTP` may be
        // lowercase. But libcurl reads such a line as status 200 and waits for a body, so one with a status code
        // without a body is rejected.
        private mutating func readStatusLine(_ line: UnsafeRawBufferPointer) throws(Defect) {
            guard let blank = line.firstIndex(of: 0x20), blank <= 8 else {
                throw Defect(reason: "the response is not HTTP")
            }
            let name = String(decoding: UnsafeRawBufferPointer(rebasing: line[..<blank]), as: UTF8.self)
            guard let version = Version(rawValue: name) ?? Version(rawValue: name.uppercased()),
                mayBeHTTP2 || !version.hasFrames
            else { throw Defect(reason: "the response is not HTTP") }
            let digits = line[blank...].drop { $0 == 0x20 }.prefix { $0 != 0x20 }
            guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw Defect(reason: "the response has no valid status code")
            }
            let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            guard code >= 100 else { throw Defect(reason: "the response has no valid status code") }
            guard name == version.rawValue || code >= 200 && code != 204 && code != 304 else {
                throw Defect(reason: "the response is not HTTP")
            }
            (lines.version, lines.code) = (version, code)
            lines.fields.reserve()
        }

        /// If the cache of earlier lines has the line, its field is added without parsing.
        private mutating func addField(_ line: UnsafeRawBufferPointer, _ known: FieldLineCache?) throws(Defect) {
            if fieldCount < maxFieldCount, let field = known?.field(of: line) {
                fieldCount += 1
                return lines.fields.append(field)
            }
            var colon = 0
            while colon < line.count, line[colon].isTokenByte { colon += 1 }
            guard colon > 0, colon < line.count, line[colon] == 0x3a else {
                let hasColon = line.contains(0x3a)
                throw Defect(
                    reason: hasColon ? "the name of a header field is not a token" : "a header line has no colon")
            }
            fieldCount += 1
            guard fieldCount <= maxFieldCount else {
                throw Defect(reason: "the header has more than \(maxFieldCount) fields")
            }
            let name = String(decoding: UnsafeRawBufferPointer(rebasing: line[..<colon]), as: UTF8.self)
            let value = try Self.value(line[(colon + 1)...])
            let field = HeaderFields.Field(name: name, value: value)
            lines.fields.append(field)
            // The fields of the first four cases are not cached, because each must also change `lines`.
            switch colon {
            case 14 where name.equalsIgnoringCase("Content-Length"):
                lines.length.read(UnsafeRawBufferPointer(rebasing: line[(colon + 1)...]))
            case 17 where name.equalsIgnoringCase("Transfer-Encoding"): lines.isCoded = true
            case 16 where name.equalsIgnoringCase("Content-Encoding"): lines.hasContentCoding = true
            case 8 where name.equalsIgnoringCase("Location"): lines.locationCount += 1
            default: known?.note(line, field)
            }
        }

        /// Appends a folded line to the previous value (RFC 9112, section 5.2).
        private mutating func fold(_ line: UnsafeRawBufferPointer) throws(Defect) {
            guard let field = lines.fields.last else {
                throw Defect(reason: "the header begins with a folded line")
            }
            // libcurl finds the end of the body by the first line alone. From 8.18 on, libcurl joins the lines itself.
            guard !field.isFraming else {
                throw Defect(reason: "the field \(field.name), which determines the end of the body, is folded")
            }
            lines.fields.extendLast(" " + (try Self.value(line[...])))
        }

        /// A value without surrounding blanks: UTF-8 if valid, otherwise Latin-1, which accepts any bytes.
        private static func value(_ line: Slice<UnsafeRawBufferPointer>) throws(Defect) -> String {
            var (start, end) = (line.startIndex, line.endIndex)
            while start < end, line[start].isBlank { start += 1 }
            while start < end, line[end - 1].isBlank { end -= 1 }
            let bytes = UnsafeRawBufferPointer(rebasing: line.base[start..<end])
            var isASCII = true
            for byte in bytes {
                if byte == 0 || byte == 0x0d { throw Defect(reason: "a header field contains NUL or CR") }
                if byte >= 0x80 { isASCII = false }
            }
            if isASCII { return String(decoding: bytes, as: UTF8.self) }
            return String(validating: bytes, as: UTF8.self)
                ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }

        private mutating func finish(_ version: Version) throws(Defect) -> ResponseHead {
            let lines = self.lines
            self.lines = Lines()
            lastStatusCode = lines.code
            guard lines.code != 101 else {
                throw Defect(reason: "the server switches protocols, which was not requested")
            }
            var head = ResponseHead(statusCode: lines.code, headerFields: lines.fields)
            if head.isInformational { return head }
            isComplete = true
            hasContentCoding = lines.hasContentCoding
            if let defect = lines.length.defect { throw Defect(reason: defect) }
            let length = lines.length.length
            // Equal values count as one. Since 8.17 libcurl rejects different values, whatever the status code.
            if lines.locationCount > 1 {
                let locations = lines.fields.values(of: "Location").filter { !$0.isEmpty }
                guard locations.allSatisfy({ $0 == locations.first }) else {
                    throw Defect(reason: "the response has two different Location fields")
                }
            }
            if lines.isCoded, head.hasBody(for: method) {
                if let defect = head.transferCodingDefect { throw Defect(reason: defect) }
                // Only HTTP/1.1 has transfer codings (RFC 9112, section 6.1, and RFC 9113, section 8.2.2).
                guard version == .http11 else {
                    throw Defect(reason: "the response has a transfer coding, which only HTTP/1.1 allows")
                }
            }
            framing = version.hasFrames ? .frames : lines.isCoded ? .chunks : length != nil ? .length : .connection
            // Transfer-Encoding overrides a length (RFC 9112, section 6.3).
            if !lines.isCoded { head.expectedBytes = length }
            return head
        }
    }

    /// The cache stores a line of at most 160 bytes when it arrives for the second time, except lines with secrets,
    /// lengths, codings or locations.
    final class FieldLineCache {
        private struct Slot {
            /// The digest of the last line that was noted here; a second line with this digest is stored.
            var candidate: UInt64 = 0
            /// Which slot of the pair was noted last; used in the first slot of the pair.
            var turn = 0
            var line: [UInt8] = []
            var field: HeaderFields.Field?
        }

        @exclusivity(unchecked) private var slots = [Slot](repeating: Slot(), count: 64)

        static let mostBytes = 160

        /// The field of a line without its line end; nil if the line is not cached.
        func field(of line: UnsafeRawBufferPointer) -> HeaderFields.Field? {
            guard line.count <= Self.mostBytes else { return nil }
            let slot = Int(Self.digest(of: line) % 64)
            if let field = slots[slot].field, Self.equals(slots[slot].line, line) { return field }
            guard let field = slots[slot ^ 1].field, Self.equals(slots[slot ^ 1].line, line) else { return nil }
            return field
        }

        /// The two slots of a line are used in turn, so that two lines with the same slots cannot replace each other
        /// forever.
        func note(_ line: UnsafeRawBufferPointer, _ field: HeaderFields.Field) {
            guard line.count <= Self.mostBytes else { return }
            let digest = Self.digest(of: line)
            var slot = Int(digest % 64)
            if slots[slot].candidate != digest { slot ^= 1 }
            guard slots[slot].candidate == digest else {
                let first = slot & ~1
                slots[first].turn ^= 1
                slots[first | slots[first].turn].candidate = digest
                return
            }
            guard !field.isSecret else { return }
            (slots[slot].line, slots[slot].field) = (Array(line), field)
        }

        private static func equals(_ kept: [UInt8], _ line: UnsafeRawBufferPointer) -> Bool {
            kept.withUnsafeBytes { kept in
                guard kept.count == line.count, let left = kept.baseAddress, let right = line.baseAddress else {
                    return false
                }
                return memcmp(left, right, line.count) == 0
            }
        }

        /// A collision only costs time, so a server gains nothing from it.
        private static func digest(of line: UnsafeRawBufferPointer) -> UInt64 {
            let start = UInt64(line.count)
            guard line.count >= 8 else { return line.reduce(start) { ($0 ^ UInt64($1)) &* factor } }
            let first = line.loadUnaligned(as: UInt64.self)
            let last = line.loadUnaligned(fromByteOffset: line.count - 8, as: UInt64.self)
            let digest = ((start ^ first) &* factor ^ last) &* factor
            return digest ^ digest >> 32
        }

        private static let factor: UInt64 = 0x9E37_79B9_7F4A_7C15
    }
#endif
