import Convoy
import Foundation

extension Reply {
    func rendered(for request: RecordedRequest, keepsAlive: Bool) -> (steps: [Step], keepsConnection: Bool) {
        var keepsConnection = keepsAlive && !closesConnection
        var head = Data()
        var body: [Step]
        for response in informational {
            head.appendHead(response.statusCode, response.headerFields)
        }
        switch content {
        case .steps(let steps):
            // The steps decide when the connection closes. The server closes it by itself only if the client or
            // `closingConnection()` requests a close.
            body = steps
        case .message(let message):
            body = message.render(into: &head, for: request, keepsConnection: &keepsConnection)
        case .resource(let resource):
            body = resource.message(for: request).render(into: &head, for: request, keepsConnection: &keepsConnection)
        }
        let headByteCount = Int64(head.count)
        if !head.isEmpty { body.insert(.write(head), at: 0) }
        return (inserting(into: body, headByteCount: headByteCount), keepsConnection)
    }

    func steps(at moment: Moment) -> [Step] { effects.filter { $0.moment == moment }.map(\.step) }

    var requestBodyMoments: [Int64] {
        let counts = effects.compactMap { effect in
            if case .requestBody(let byteCount) = effect.moment { byteCount } else { nil }
        }
        return Set(counts).sorted()
    }

    private func inserting(into base: [Step], headByteCount: Int64) -> [Step] {
        var inserts: [(offset: Int64, step: Step)] = []
        if let pace {
            inserts.append((headByteCount, .pace(bytesPerSecond: pace.bytesPerSecond, pieceBytes: pace.pieceBytes)))
        }
        for effect in effects {
            switch effect.moment {
            case .requestStart, .requestBody: break
            case .responseStart: inserts.append((-1, effect.step))
            case .responseBody(let count): inserts.append((headByteCount + min(max(0, count), 1 << 62), effect.step))
            case .response(let count): inserts.append((max(0, count), effect.step))
            case .responseEnd: inserts.append((.max, effect.step))
            }
        }
        guard !inserts.isEmpty else { return base }
        var pending = inserts.enumerated().sorted { ($0.element.offset, $0.offset) < ($1.element.offset, $1.offset) }
            .map(\.element)[...]
        var result: [Step] = []
        var position: Int64 = 0
        for step in base {
            var rest = [step]
            // The sum may overflow, because a test may choose any byte counts.
            let (sum, isTooLarge) = position.addingReportingOverflow(step.byteCount)
            let end = isTooLarge ? Int64.max : sum
            while let next = pending.first, next.offset < end {
                if next.offset > position {
                    let (before, after) = Self.split(rest, at: next.offset - position)
                    result += before
                    rest = after
                    position = next.offset
                }
                result.append(next.step)
                pending.removeFirst()
            }
            result += rest
            position = end
        }
        return result + pending.map(\.step)
    }

    private static func split(_ steps: [Step], at offset: Int64) -> (before: [Step], after: [Step]) {
        var before: [Step] = []
        var offset = offset
        for (index, step) in steps.enumerated() {
            guard offset < step.byteCount else {
                before.append(step)
                offset -= step.byteCount
                continue
            }
            if offset == 0 { return (before, Array(steps[index...])) }
            let parts = step.split(at: offset)
            return (before + parts.before, parts.after + steps[(index + 1)...])
        }
        return (before, [])
    }
}

extension Reply.Message {
    func render(into head: inout Data, for request: RecordedRequest, keepsConnection: inout Bool) -> [Reply.Step] {
        var fields = headerFields
        var steps: [Reply.Step] = []
        let isBodiless = (100..<200).contains(statusCode) || statusCode == 204 || statusCode == 304
        let isFramed = fields.contains { name, _ in
            name.equalsIgnoringCase("content-length") || name.equalsIgnoringCase("transfer-encoding")
        }
        switch body {
        case .data(let data):
            if !isBodiless, !isFramed { fields.append(("Content-Length", String(data.count))) }
            if !data.isEmpty { steps = [.write(data)] }
        case .generated(let range):
            if !isBodiless, !isFramed { fields.append(("Content-Length", String(range.count))) }
            steps = [.generate(range)]
        case .chunked(let chunks, let trailers):
            if request.isHTTP10 {
                steps = chunks.map { .write($0) }
                keepsConnection = false
            } else {
                if !isBodiless, !isFramed { fields.append(("Transfer-Encoding", "chunked")) }
                steps = [.write(Self.chunkedBody(chunks, trailers: trailers))]
            }
        }
        if !keepsConnection {
            let isTold = fields.contains { name, _ in name.equalsIgnoringCase("connection") }
            if !isTold { fields.append(("Connection", "close")) }
        } else if request.isHTTP10 {
            fields.append(("Connection", "keep-alive"))
        }
        head.appendHead(statusCode, fields)
        return isBodiless || request.method == "HEAD" ? [] : steps
    }

    private static func chunkedBody(_ chunks: [Data], trailers: [(String, String)]) -> Data {
        var bytes = Data()
        for chunk in chunks where !chunk.isEmpty {
            bytes.append(contentsOf: "\(String(chunk.count, radix: 16))\r\n".utf8)
            bytes.append(chunk)
            bytes.append(contentsOf: "\r\n".utf8)
        }
        bytes.append(contentsOf: "0\r\n".utf8)
        for (name, value) in trailers { bytes.append(contentsOf: "\(name): \(value)\r\n".utf8) }
        bytes.append(contentsOf: "\r\n".utf8)
        return bytes
    }
}

extension Data {
    fileprivate mutating func appendHead(_ statusCode: Int, _ fields: [(String, String)]) {
        var text = "HTTP/1.1 "
        text.reserveCapacity(128)
        text += String(statusCode)
        text += " "
        text += ReasonPhrase.of(statusCode) ?? "Status"
        for (name, value) in fields {
            text += "\r\n"
            text += name
            text += ": "
            text += value
        }
        text += "\r\n\r\n"
        append(contentsOf: text.utf8)
    }
}

extension Reply {
    struct Resource: Sendable {
        var content: Body
        var byteCount: Int64
        var etag: String?
        var lastModified: String?
        var headerFields: [(String, String)]
    }

    /// A resource in memory that supports `Range` and `If-Range`, with 200, 206 or 416 as in RFC 9110, section 14.
    ///
    /// The reply serves one range of bytes. Requests with several ranges, other units or malformed ranges receive the
    /// complete representation with 200, which the RFC allows. `If-Range` compares strongly. A weak entity tag never
    /// matches, and a date matches only if the text is equal.
    ///
    /// - Parameters:
    ///   - data: the complete representation.
    ///   - etag: with its quotes, for example `"\"v1\""`; none by default.
    ///   - lastModified: an HTTP date, sent unchanged; none by default.
    ///   - headerFields: further fields.
    public static func resource(
        _ data: Data, etag: String? = nil, lastModified: String? = nil, headerFields: [(String, String)] = []
    ) -> Reply {
        Reply(
            .resource(
                Resource(
                    content: .data(data), byteCount: Int64(data.count), etag: etag, lastModified: lastModified,
                    headerFields: headerFields)))
    }

    /// A generated resource of any size that supports `Range` and `If-Range` like a resource in memory.
    ///
    /// - Parameters:
    ///   - byteCount: the size of the resource, whose content is ``pattern(range:)``; a negative count means 0.
    ///   - etag: with its quotes; none by default.
    ///   - lastModified: an HTTP date, sent unchanged; none by default.
    ///   - headerFields: further fields.
    public static func resource(
        generatedByteCount byteCount: Int64, etag: String? = nil, lastModified: String? = nil,
        headerFields: [(String, String)] = []
    ) -> Reply {
        let count = max(0, byteCount)
        return Reply(
            .resource(
                Resource(
                    content: .generated(0..<count), byteCount: count, etag: etag, lastModified: lastModified,
                    headerFields: headerFields)))
    }
}

extension Reply.Resource {
    private enum Selection {
        case whole
        case part(Range<Int64>)
        case unsatisfiable
    }

    func message(for request: RecordedRequest) -> Reply.Message {
        var fields = headerFields
        fields.append(("Accept-Ranges", "bytes"))
        if let etag { fields.append(("ETag", etag)) }
        if let lastModified { fields.append(("Last-Modified", lastModified)) }
        switch selection(for: request) {
        case .whole:
            return Reply.Message(statusCode: 200, headerFields: fields, body: content)
        case .part(let range):
            fields.append(("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(byteCount)"))
            return Reply.Message(statusCode: 206, headerFields: fields, body: body(in: range))
        case .unsatisfiable:
            fields.append(("Content-Range", "bytes */\(byteCount)"))
            return Reply.Message(statusCode: 416, headerFields: fields, body: .data(Data()))
        }
    }

    private func selection(for request: RecordedRequest) -> Selection {
        // RFC 9110, section 14.2: `Range` is defined for GET only, and is ignored when `If-Range` does not match.
        guard request.method == "GET", let range = request.value(of: "Range"), ifRangeMatches(request) else {
            return .whole
        }
        let parts = range.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].lowercased() == "bytes", !parts[1].contains(",") else { return .whole }
        let ends = parts[1].trimmingCharacters(in: .whitespaces)
            .split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2, ends.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) else {
            return .whole
        }
        // A number that exceeds `Int64` is a position after the end.
        let first = ends[0].isEmpty ? nil : Int64(ends[0]) ?? .max
        let last = ends[1].isEmpty ? nil : Int64(ends[1]) ?? .max
        switch (first, last) {
        case (nil, nil):
            return .whole
        case (nil, let suffix?):
            guard suffix > 0, byteCount > 0 else { return .unsatisfiable }
            return .part(max(0, byteCount - suffix)..<byteCount)
        case (let first?, let last):
            if let last, last < first { return .whole }
            guard first < byteCount else { return .unsatisfiable }
            return .part(first..<min(last ?? .max, byteCount - 1) + 1)
        }
    }

    private func ifRangeMatches(_ request: RecordedRequest) -> Bool {
        guard let validator = request.value(of: "If-Range") else { return true }
        if validator.hasPrefix("\"") { return validator == etag }
        return validator == lastModified
    }

    private func body(in range: Range<Int64>) -> Reply.Body {
        switch content {
        case .data(let data):
            .data(data.dropFirst(Int(range.lowerBound)).prefix(Int(range.upperBound - range.lowerBound)))
        case .generated, .chunked:
            .generated(range)
        }
    }
}
