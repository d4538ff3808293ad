import Foundation

extension Reply {
    /// A representation that supports range requests.
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
