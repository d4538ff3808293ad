// The header of an answer, from libcurl's lines: a pure value.
#if canImport(CLibcurl)
    import Foundation

    /// Makes response heads of header lines, and refuses what is none.
    ///
    /// libcurl hands over each line as it came. It lets through what a strict reader must not (RFC 9112, sections 5.1 and
    /// 6.3): two lengths that differ, a length that is no number, a transfer coding other than `chunked`, names with
    /// spaces. What it lets pass is in the article <doc:WhatIsAccepted>.
    struct CurlHeaderParser {
        /// Why a header is refused.
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
        private var last: (name: String, value: String)?
        private var fieldCount = 0
        /// All header bytes so far, of interim answers too.
        private var byteCount: Int64 = 0
        /// Whether the head of the answer that counts is complete: what follows are trailers.
        private(set) var isComplete = false
        /// Of the last head that was complete.
        private(set) var lastStatusCode: Int?
        /// Of the head that counts.
        private(set) var framing = BodyFraming.connection

        /// What tells where a body ends (RFC 9112, section 6.3).
        enum BodyFraming {
            case length
            case chunks
            /// Frames of HTTP/2 or later.
            case frames
            /// The end of the connection.
            case connection
        }

        /// - Parameters:
        ///   - method: of the request, which says whether there can be a body.
        ///   - mayBeHTTP2: whether a later version than 1.1 may be spoken. Where it may not, an answer that names one is none:
        ///     its connection would pass for one that carries many requests, which is not looked at before the next.
        init(maxBytes: Int64, maxFieldCount: Int, method: HTTPMethod = .get, mayBeHTTP2: Bool = true) {
            self.maxBytes = maxBytes
            self.maxFieldCount = maxFieldCount
            self.method = method
            versions = mayBeHTTP2 ? Self.versions : Self.firstVersions
        }

        /// Whether only the status line of a head has come.
        var isAtFirstField: Bool { statusLine != nil && last == nil && fieldCount == 0 }

        /// Takes a line, its end included.
        ///
        /// - Returns: a head, interim or final, when this line was the empty one behind it.
        mutating func take(_ line: UnsafeRawBufferPointer) throws(Defect) -> ResponseHead? {
            byteCount += Int64(line.count)
            guard byteCount <= maxBytes else {
                throw Defect(reason: "the header has more than \(maxBytes) bytes")
            }
            // From some versions of libcurl, when the connection ends there.
            guard line.last == 0x0a else {
                throw Defect(reason: "the connection was closed in the middle of the header", isCut: true)
            }
            var bytes = line.dropLast()
            if bytes.last == 0x0d { bytes.removeLast() }
            // Trailers are counted and otherwise dropped (RFC 9110, section 6.5.1).
            if isComplete { return nil }
            guard let statusLine else {
                self.statusLine = try readStatusLine(bytes)
                return nil
            }
            guard !bytes.isEmpty else {
                try endField()
                return try finish(statusLine)
            }
            if bytes.first == 0x20 || bytes.first == 0x09 {
                // A folded line goes on with the value before (RFC 9112, section 5.2).
                guard let field = last else { throw Defect(reason: "the header begins with a folded line") }
                // libcurl has read the first line alone, and looks for the end of the body by that; from 8.18 on it joins
                // the lines itself.
                guard !HeaderFields.Field(name: field.name, value: "").isFraming else {
                    throw Defect(reason: "the field \(field.name), which tells where the body ends, is folded")
                }
                last?.value += " " + (try Self.value(bytes))
                return nil
            }
            try endField()
            guard let colon = bytes.firstIndex(of: 0x3a) else { throw Defect(reason: "a header line has no colon") }
            let name = bytes[..<colon]
            guard !name.isEmpty, name.allSatisfy(\.isTokenByte) else {
                throw Defect(reason: "the name of a header field is no token")
            }
            last = (Self.text(name), try Self.value(bytes[(colon + 1)...]))
            return nil
        }

        private mutating func endField() throws(Defect) {
            guard let (name, value) = last else { return }
            last = nil
            fieldCount += 1
            guard fieldCount <= maxFieldCount else {
                throw Defect(reason: "the header has more than \(maxFieldCount) fields")
            }
            if fieldCount == 1 { fields.reserve() }
            fields.add(name, value)
        }

        private mutating func finish(_ line: (version: String, code: Int)) throws(Defect) -> ResponseHead {
            defer { (statusLine, fields) = (nil, HeaderFields()) }
            lastStatusCode = line.code
            guard line.code != 101 else {
                throw Defect(reason: "the server switches protocols, which was not asked for")
            }
            var head = ResponseHead(statusCode: line.code, headerFields: fields)
            if head.isInformational { return head }
            isComplete = true
            let length = try contentLength()
            try checkLocations()
            let isCoded = fields.contains("Transfer-Encoding")
            if isCoded, head.hasBody(for: method) {
                if let defect = head.transferCodingDefect { throw Defect(reason: defect) }
                // RFC 9112, section 6.1, and RFC 9113, section 8.2.2.
                guard line.version == "HTTP/1.1" else {
                    throw Defect(reason: "the answer has a transfer coding, which there is in HTTP/1.1 only")
                }
            }
            let isFramed = !["HTTP/1.0", "HTTP/1.1"].contains(line.version)
            framing = isFramed ? .frames : isCoded ? .chunks : length != nil ? .length : .connection
            // Transfer-Encoding overrides a length (RFC 9112, section 6.3).
            if !isCoded { head.expectedBytes = length }
            return head
        }

        /// The declared length; several equal ones are one (RFC 9110, section 8.6).
        private func contentLength() throws(Defect) -> Int64? {
            var length: Int64?
            for field in fields where field.name.equalsIgnoringCase("Content-Length") {
                for member in field.value.utf8.split(separator: 0x2c, omittingEmptySubsequences: false) {
                    guard let value = Self.number(member) else {
                        throw Defect(reason: "the Content-Length is no length")
                    }
                    guard length == nil || length == value else {
                        throw Defect(reason: "the answer has two lengths, \(length ?? 0) and \(value)")
                    }
                    length = value
                }
            }
            return length
        }

        /// Several equal ones are one; libcurl refuses others since 8.17, whatever the status code.
        private func checkLocations() throws(Defect) {
            let locations = fields.values(of: "Location").filter { !$0.isEmpty }
            guard locations.allSatisfy({ $0 == locations.first }) else {
                throw Defect(reason: "the answer has two Locations that differ")
            }
        }

        /// Digits, perhaps with blanks around them; nil for anything else, and for what no one can count to.
        private static func number(_ text: Substring.UTF8View) -> Int64? {
            let digits = text.drop { $0 == 0x20 || $0 == 0x09 }.prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty, text[digits.endIndex...].allSatisfy({ $0 == 0x20 || $0 == 0x09 }) else { return nil }
            var value: Int64 = 0
            for digit in digits {
                let (product, overflows) = value.multipliedReportingOverflow(by: 10)
                let (sum, carries) = product.addingReportingOverflow(Int64(digit - 0x30))
                if overflows || carries { return nil }
                value = sum
            }
            return value
        }

        private static let firstVersions = ["HTTP/1.1", "HTTP/1.0"]
        private static let versions = firstVersions + ["HTTP/2", "HTTP/2.0", "HTTP/3"]

        /// `HTTP/1.1 200 OK`, where the reason may be missing.
        ///
        /// Several blanks are one (RFC 9112, section 4). The letters may be small ones, as for browsers; but libcurl takes
        /// such a line for the status 200, so that it waits for a body where there is none.
        private func readStatusLine(
            _ line: Slice<UnsafeRawBufferPointer>
        ) throws(Defect) -> (version: String, code: Int) {
            guard let blank = line.firstIndex(of: 0x20), blank - line.startIndex <= 8 else {
                throw Defect(reason: "the answer is not HTTP")
            }
            let given = Self.text(line[..<blank])
            guard let version = versions.first(where: { $0.equalsIgnoringCase(given) }) else {
                throw Defect(reason: "the answer is not HTTP")
            }
            let digits = line[blank...].drop { $0 == 0x20 }.prefix { $0 != 0x20 }
            guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw Defect(reason: "the answer has no valid status code")
            }
            let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            guard code >= 100 else { throw Defect(reason: "the answer has no valid status code") }
            guard given == version || code >= 200 && code != 204 && code != 304 else {
                throw Defect(reason: "the answer is not HTTP")
            }
            return (version, code)
        }

        /// A value without the blanks around it.
        private static func value(_ bytes: Slice<UnsafeRawBufferPointer>) throws(Defect) -> String {
            var bytes = bytes
            while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
            while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
            guard !bytes.contains(where: { $0 == 0 || $0 == 0x0d }) else {
                throw Defect(reason: "a header field contains NUL or CR")
            }
            return text(bytes)
        }

        /// UTF-8 where it is that, else Latin-1, which any bytes are.
        private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
            let bytes = UnsafeRawBufferPointer(rebasing: bytes).bindMemory(to: UInt8.self)
            // Nearly all: the general way looks its types up at run time.
            if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
            if let text = String(validating: bytes, as: UTF8.self) { return text }
            return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }
    }
#endif
