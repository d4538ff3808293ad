// Parses the header of a response from libcurl's lines.
#if canImport(CLibcurl)
    import Foundation

    // libcurl also passes lines that a strict reader must reject (RFC 9112, sections 5.1 and 6.3): two different
    // lengths, an invalid length, a transfer coding other than `chunked`, names with spaces. <doc:WhatIsAccepted>
    // lists the deviations that this parser accepts.
    struct CurlHeaderParser {
        enum BodyFraming { case delimited, frames, connection }

        private static let versionsWithFrames = ["HTTP/2", "HTTP/2.0", "HTTP/3"]

        private let maxBytes: Int64
        private let maxFieldCount: Int
        private let method: HTTPMethod
        private let mayBeHTTP2: Bool
        private var statusLine: (version: String, code: Int)?
        private var fields = HeaderFields()
        private var fieldCount = 0
        private var byteCount: Int64 = 0
        /// Later lines are trailers.
        private(set) var isComplete = false
        private(set) var lastStatusCode: Int?
        private(set) var framing = BodyFraming.connection

        /// - Parameter mayBeHTTP2: whether versions above 1.1 are possible. If false, accepting one would mark the
        ///   connection as shared, and its next request would be sent without a check.
        init(_ options: ConnectionOptions, _ method: HTTPMethod = .get, mayBeHTTP2: Bool = true) {
            (maxBytes, maxFieldCount) = (options.maxHeaderBytes, options.maxHeaderFieldCount)
            (self.method, self.mayBeHTTP2) = (method, mayBeHTTP2)
        }

        var isAtFirstField: Bool { statusLine != nil && fields.isEmpty }

        /// Returns the interim or final head, if this is the empty line that ends its header.
        mutating func take(_ line: UnsafeRawBufferPointer) throws(RequestError) -> ResponseHead? {
            byteCount += Int64(line.count)
            guard byteCount <= maxBytes else {
                throw RequestError(.badResponse, "the header has more than \(maxBytes) bytes")
            }
            // Some newer versions of libcurl pass on a partial line when the connection ends.
            guard line.last == 0x0a else {
                throw RequestError(.connectionLost, "the connection was closed in the middle of the header")
            }
            // Trailers count for the size limit and are then dropped (RFC 9110, section 6.5.1).
            if isComplete { return nil }
            let end = line.count - 1
            let bytes = UnsafeRawBufferPointer(rebasing: line[..<(end > 0 && line[end - 1] == 0x0d ? end - 1 : end)])
            guard let (version, code) = statusLine else {
                try readStatusLine(bytes)
                return nil
            }
            guard let first = bytes.first else { return try finish(version, code) }
            if first.isBlank { try fold(bytes) } else { try addField(bytes) }
            return nil
        }

        // The reason may be missing. Several spaces count as one (RFC 9112, section 4). As in browsers, `HTTP` may be
        // lowercase. But libcurl reads such a line as status 200 and waits for a body, so one with a status code
        // without a body is rejected.
        private mutating func readStatusLine(_ line: UnsafeRawBufferPointer) throws(RequestError) {
            guard let blank = line.firstIndex(of: 0x20), blank <= 8 else {
                throw RequestError(.badResponse, "the response is not HTTP")
            }
            let name = String(decoding: UnsafeRawBufferPointer(rebasing: line[..<blank]), as: UTF8.self)
            let version = name.uppercased()
            // Nearly all responses name HTTP/1.1, so it is compared first.
            let isHTTP1 = version == "HTTP/1.1" || version == "HTTP/1.0"
            guard isHTTP1 || mayBeHTTP2 && Self.versionsWithFrames.contains(version) else {
                throw RequestError(.badResponse, "the response is not HTTP")
            }
            let digits = line[blank...].drop { $0 == 0x20 }.prefix { $0 != 0x20 }
            guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw RequestError(.badResponse, "the response has no valid status code")
            }
            let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            guard code >= 100 else { throw RequestError(.badResponse, "the response has no valid status code") }
            guard name == version || code >= 200 && code != 204 && code != 304 else {
                throw RequestError(.badResponse, "the response is not HTTP")
            }
            statusLine = (version, code)
            fields.reserve()
        }

        private mutating func addField(_ line: UnsafeRawBufferPointer) throws(RequestError) {
            var colon = 0
            while colon < line.count, line[colon].isTokenByte { colon += 1 }
            guard colon > 0, colon < line.count, line[colon] == 0x3a else {
                let hasColon = line.contains(0x3a)
                throw RequestError(
                    .badResponse, hasColon ? "the name of a header field is not a token" : "a header line has no colon")
            }
            fieldCount += 1
            guard fieldCount <= maxFieldCount else {
                throw RequestError(.badResponse, "the header has more than \(maxFieldCount) fields")
            }
            let name = String(decoding: UnsafeRawBufferPointer(rebasing: line[..<colon]), as: UTF8.self)
            fields.append(.init(name: name, value: try Self.value(line[(colon + 1)...])))
        }

        /// Appends a folded line to the previous value (RFC 9112, section 5.2).
        private mutating func fold(_ line: UnsafeRawBufferPointer) throws(RequestError) {
            guard let field = fields.last else {
                throw RequestError(.badResponse, "the header begins with a folded line")
            }
            // libcurl finds the end of the body by the first line alone. From 8.18 on, libcurl joins the lines itself.
            guard !field.isFraming else {
                let reason = "the field \(field.name), which determines the end of the body, is folded"
                throw RequestError(.badResponse, reason)
            }
            fields.extendLast(" " + (try Self.value(line[...])))
        }

        /// A value without surrounding blanks: UTF-8 if valid, otherwise Latin-1, which accepts any bytes.
        private static func value(_ line: Slice<UnsafeRawBufferPointer>) throws(RequestError) -> String {
            var (start, end) = (line.startIndex, line.endIndex)
            while start < end, line[start].isBlank { start += 1 }
            while start < end, line[end - 1].isBlank { end -= 1 }
            let bytes = UnsafeRawBufferPointer(rebasing: line.base[start..<end])
            if let start = bytes.baseAddress, memchr(start, 0, bytes.count) ?? memchr(start, 0x0d, bytes.count) != nil {
                throw RequestError(.badResponse, "a header field contains NUL or CR")
            }
            if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
            return String(validating: bytes, as: UTF8.self)
                ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }

        private mutating func finish(_ version: String, _ code: Int) throws(RequestError) -> ResponseHead {
            var head = ResponseHead(statusCode: code, headerFields: fields)
            (statusLine, fields, lastStatusCode) = (nil, HeaderFields(), code)
            guard code != 101 else {
                throw RequestError(.badResponse, "the server switches protocols, which was not requested")
            }
            if head.isInformational { return head }
            let length = DeclaredLength(head.headerFields)
            if let defect = length.defect { throw RequestError(.badResponse, defect) }
            // Equal values count as one. Since 8.17 libcurl rejects different values, whatever the status code.
            let locations = head.headerFields.values(of: "Location").filter { !$0.isEmpty }
            guard locations.allSatisfy({ $0 == locations.first }) else {
                throw RequestError(.badResponse, "the response has two different Location fields")
            }
            let isCoded = head.headerFields.contains("Transfer-Encoding")
            if isCoded, head.hasBody(for: method) {
                if let defect = head.transferCodingDefect { throw RequestError(.badResponse, defect) }
                // Only HTTP/1.1 has transfer codings (RFC 9112, section 6.1, and RFC 9113, section 8.2.2).
                guard version == "HTTP/1.1" else {
                    throw RequestError(.badResponse, "the response has a transfer coding, which only HTTP/1.1 allows")
                }
            }
            isComplete = true
            let hasFrames = Self.versionsWithFrames.contains(version)
            framing = hasFrames ? .frames : isCoded || length.length != nil ? .delimited : .connection
            // Transfer-Encoding overrides a length (RFC 9112, section 6.3).
            if !isCoded { head.expectedBytes = length.length }
            return head
        }
    }
#endif
