// Parses the header of a response from libcurl's lines.
#if canImport(CLibcurl)
    import Foundation

    /// Makes response heads from header lines, and rejects invalid ones.
    ///
    /// libcurl passes each line on as received. It also passes lines that a strict reader must reject (RFC 9112,
    /// sections 5.1 and 6.3): two different lengths, an invalid length, a transfer coding other than `chunked`, names
    /// with spaces. The article <doc:WhatIsAccepted> lists the deviations that this parser accepts.
    struct CurlHeaderParser {
        /// Why a header is rejected.
        struct Defect: Error {
            let reason: String
            /// Whether the connection ended in the middle of a line.
            var isCut = false
        }

        private let maxBytes: Int64
        private let maxFieldCount: Int
        private let method: HTTPMethod
        private let versions: [String]
        private var statusLine: (version: String, code: Int)?
        private var fields = HeaderFields()
        private var lengths = DeclaredLength()
        /// The number of fields so far, including interim responses.
        private var fieldCount = 0
        /// The number of header bytes so far, including interim responses.
        private var byteCount: Int64 = 0
        /// Whether the head of the final response is complete.
        ///
        /// Later lines are trailers.
        private(set) var isComplete = false
        /// The status code of the last complete head.
        private(set) var lastStatusCode: Int?
        /// The framing of the final response.
        private(set) var framing = BodyFraming.connection
        /// Whether the final response has a `Content-Encoding`.
        private(set) var hasContentCoding = false

        /// How the end of a body is determined (RFC 9112, section 6.3).
        enum BodyFraming {
            case length
            case chunks
            /// Frames of HTTP/2 or later.
            case frames
            /// The end of the connection.
            case connection
        }

        /// - Parameters:
        ///   - method: the request's method, which determines whether there can be a body.
        ///   - mayBeHTTP2: whether versions above 1.1 are possible. If false, a response with such a version is
        ///     invalid. Accepting it would mark the connection as shared, and its next request would be sent without a
        ///     check.
        init(maxBytes: Int64, maxFieldCount: Int, method: HTTPMethod = .get, mayBeHTTP2: Bool = true) {
            self.maxBytes = maxBytes
            self.maxFieldCount = maxFieldCount
            self.method = method
            versions = mayBeHTTP2 ? Self.versions : Self.firstVersions
        }

        /// Makes a parser with the header limits of the options.
        init(_ options: ConnectionOptions, _ method: HTTPMethod, mayBeHTTP2: Bool) {
            self.init(
                maxBytes: options.maxHeaderBytes, maxFieldCount: options.maxHeaderFieldCount, method: method,
                mayBeHTTP2: mayBeHTTP2)
        }

        /// Whether only the status line of a head has arrived.
        var isAtFirstField: Bool { statusLine != nil && fields.isEmpty }

        /// Reads a line, including its line end.
        ///
        /// - Parameter known: the field lines of earlier responses.
        /// - Returns: the interim or final head, if this is the empty line that ends its header; nil for other lines
        ///   and for trailers.
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
            // Trailers are counted and otherwise dropped (RFC 9110, section 6.5.1).
            if isComplete { return nil }
            let end = line.count - 1
            let bytes = UnsafeRawBufferPointer(rebasing: line[..<(end > 0 && line[end - 1] == 0x0d ? end - 1 : end)])
            guard let statusLine else {
                self.statusLine = try readStatusLine(bytes[...])
                return nil
            }
            guard let first = bytes.first else { return try finish(statusLine) }
            if first.isBlank { try fold(bytes) } else { try addField(bytes, known) }
            return nil
        }

        /// Adds a field in one pass over its line, or without parsing if the line is cached.
        private mutating func addField(_ line: UnsafeRawBufferPointer, _ known: FieldLineCache?) throws(Defect) {
            if fields.isEmpty { fields.reserve() }
            if fieldCount < maxFieldCount, let field = known?.field(of: line) {
                fieldCount += 1
                return fields.append(field)
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
            let name = UnsafeRawBufferPointer(rebasing: line[..<colon])
            let value = try Self.value(line, from: colon + 1)
            let field = HeaderFields.Field(name: String(decoding: name, as: UTF8.self), value: value.text)
            fields.append(field)
            if !lengths.note(name, value.bytes) { known?.note(line, field) }
        }

        /// Appends a folded line to the previous value (RFC 9112, section 5.2).
        private mutating func fold(_ line: UnsafeRawBufferPointer) throws(Defect) {
            guard let field = fields.last else { throw Defect(reason: "the header begins with a folded line") }
            // libcurl finds the end of the body by the first line alone. From 8.18 on, libcurl joins the lines itself.
            guard !field.isFraming else {
                throw Defect(reason: "the field \(field.name), which determines the end of the body, is folded")
            }
            fields.extendLast(" " + (try Self.value(line, from: 0)).text)
        }

        private mutating func finish(_ line: (version: String, code: Int)) throws(Defect) -> ResponseHead {
            let lengths = lengths
            defer { (statusLine, fields, self.lengths) = (nil, HeaderFields(), DeclaredLength()) }
            lastStatusCode = line.code
            guard line.code != 101 else {
                throw Defect(reason: "the server switches protocols, which was not requested")
            }
            var head = ResponseHead(statusCode: line.code, headerFields: fields)
            if head.isInformational { return head }
            isComplete = true
            hasContentCoding = lengths.hasContentCoding
            if let defect = lengths.defect { throw defect }
            // Equal values count as one. Since 8.17 libcurl rejects different values, whatever the status code.
            if lengths.locationCount > 1 {
                let locations = fields.values(of: "Location").filter { !$0.isEmpty }
                guard locations.allSatisfy({ $0 == locations.first }) else {
                    throw Defect(reason: "the response has two different Location fields")
                }
            }
            if lengths.isCoded, head.hasBody(for: method) {
                if let defect = head.transferCodingDefect { throw Defect(reason: defect) }
                // RFC 9112, section 6.1, and RFC 9113, section 8.2.2.
                guard line.version == "HTTP/1.1" else {
                    throw Defect(reason: "the response has a transfer coding, which only HTTP/1.1 allows")
                }
            }
            let isFramed = line.version != "HTTP/1.1" && line.version != "HTTP/1.0"
            framing = isFramed ? .frames : lengths.isCoded ? .chunks : lengths.length != nil ? .length : .connection
            // Transfer-Encoding overrides a length (RFC 9112, section 6.3).
            if !lengths.isCoded { head.expectedBytes = lengths.length }
            return head
        }

        private static let firstVersions = ["HTTP/1.1", "HTTP/1.0"]
        private static let versions = firstVersions + ["HTTP/2", "HTTP/2.0", "HTTP/3"]

        /// Parses a status line such as `HTTP/1.1 200 OK`, where the reason may be missing.
        ///
        /// Several spaces count as one (RFC 9112, section 4). As in browsers, `HTTP` may be lowercase. But libcurl
        /// reads such a line as status 200 and waits for a body. A lowercase line with a status code without a body is
        /// therefore rejected.
        private func readStatusLine(
            _ line: Slice<UnsafeRawBufferPointer>
        ) throws(Defect) -> (version: String, code: Int) {
            guard let blank = line.firstIndex(of: 0x20), blank - line.startIndex <= 8 else {
                throw Defect(reason: "the response is not HTTP")
            }
            let (version, given) = try version(line[..<blank])
            let digits = line[blank...].drop { $0 == 0x20 }.prefix { $0 != 0x20 }
            guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw Defect(reason: "the response has no valid status code")
            }
            let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            guard code >= 100 else { throw Defect(reason: "the response has no valid status code") }
            guard given == version || code >= 200 && code != 204 && code != 304 else {
                throw Defect(reason: "the response is not HTTP")
            }
            return (version, code)
        }

        /// Returns the version that the bytes name, and their text.
        private func version(
            _ bytes: Slice<UnsafeRawBufferPointer>
        ) throws(Defect) -> (version: String, given: String) {
            // Nearly all responses name HTTP/1.1, so it is compared first.
            let first = Self.firstVersions[0]
            if bytes.elementsEqual(first.utf8) { return (first, first) }
            let given = String(decoding: bytes, as: UTF8.self)
            guard let version = versions.first(where: { $0.equalsIgnoringCase(given) }) else {
                throw Defect(reason: "the response is not HTTP")
            }
            return (version, given)
        }

        /// A value without surrounding blanks: UTF-8 if valid, otherwise Latin-1, which accepts any bytes.
        private static func value(
            _ line: UnsafeRawBufferPointer, from start: Int
        ) throws(Defect) -> (text: String, bytes: UnsafeRawBufferPointer) {
            var (start, end) = (start, line.count)
            while start < end, line[start].isBlank { start += 1 }
            while start < end, line[end - 1].isBlank { end -= 1 }
            let bytes = UnsafeRawBufferPointer(rebasing: line[start..<end])
            let (isASCII, isClean) = Self.look(at: bytes)
            guard isClean else { throw Defect(reason: "a header field contains NUL or CR") }
            if isASCII { return (String(decoding: bytes, as: UTF8.self), bytes) }
            let text = String(validating: bytes, as: UTF8.self)
            return (text ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })), bytes)
        }
    }

    extension CurlHeaderParser {
        /// Whether all bytes are ASCII, and whether none is NUL or CR.
        ///
        /// The loop checks eight bytes at a time.
        fileprivate static func look(at bytes: UnsafeRawBufferPointer) -> (isASCII: Bool, isClean: Bool) {
            let (ones, highs) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
            var (all, found): (UInt64, UInt64) = (0, 0)
            var index = 0
            while index + 8 <= bytes.count {
                let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                let returns = word ^ 0x0d0d_0d0d_0d0d_0d0d
                all |= word
                // Sets the high bit of each byte that is zero, and perhaps of bytes above it.
                found |= (word &- ones) & ~word | (returns &- ones) & ~returns
                index += 8
            }
            while index < bytes.count {
                let byte = bytes[index]
                all |= UInt64(byte)
                if byte == 0 || byte == 0x0d { found = highs }
                index += 1
            }
            return (all & highs == 0, found & highs == 0)
        }
    }
#endif
