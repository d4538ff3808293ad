import Foundation

@testable import Convoy

/// One version of a file on a server.
struct FileVersion: Sendable, Hashable {
    var content: Data
    var headerFields: HeaderFields

    init(_ content: Data, etag: String? = "\"v1\"", headerFields: HeaderFields = [:]) {
        self.content = content
        self.headerFields = headerFields
        if let etag { self.headerFields["ETag"] = etag }
    }

    /// Bytes that depend on their position and on the seed, so that no file resembles another.
    static func seeded(_ seed: UInt64, byteCount: Int) -> Data {
        var generator = SeededGenerator(seed: seed)
        var words: [UInt64] = []
        while words.count * 8 < byteCount { words.append(generator.next()) }
        return words.withUnsafeBytes { Data($0.prefix(byteCount)) }
    }

    /// Responds by the rules of RFC 9110, sections 13 and 14.
    ///
    /// - Parameter isLeftOpen: whether the response never ends.
    func answer(
        _ exchange: StubExchange, sending limit: Int = .max, thenFailing error: RequestError? = nil,
        isLeftOpen: Bool = false
    ) {
        let request = exchange.request.headerFields
        var fields = headerFields
        let isUnchanged =
            request["If-None-Match"].map { $0 == headerFields["ETag"] }
            ?? request["If-Modified-Since"].map { $0 == headerFields["Last-Modified"] } ?? false
        if isUnchanged { return exchange.answer(304) }
        let isCurrent =
            request["If-Range"].map { $0 == headerFields["ETag"] || $0 == headerFields["Last-Modified"] } ?? true
        guard let (start, end) = request["Range"].flatMap(Self.ends), isCurrent else {
            return send(exchange, 200, fields, content, limit, error, isLeftOpen: isLeftOpen)
        }
        guard start < content.count else {
            fields["Content-Range"] = "bytes */\(content.count)"
            return send(exchange, 416, fields, Data("beyond".utf8), .max, nil)
        }
        let range = start..<min(end ?? .max, content.count - 1) + 1
        fields["Content-Range"] = "bytes \(start)-\(range.upperBound - 1)/\(content.count)"
        send(exchange, 206, fields, content[range], limit, error, isLeftOpen: isLeftOpen)
    }

    func send(
        _ exchange: StubExchange, _ statusCode: Int, _ fields: HeaderFields, _ body: Data, _ limit: Int = .max,
        _ error: RequestError? = nil, isLeftOpen: Bool = false
    ) {
        exchange.respond(
            ResponseHead(
                statusCode: statusCode, headerFields: fields, url: exchange.request.url,
                expectedBytes: Int64(body.count)))
        for piece in body.prefix(limit).pieces(of: 10_000) { exchange.send(piece) }
        if !isLeftOpen { exchange.finish(error) }
    }

    /// The first position of a byte range, and the last one if it is given; nil for any other field value.
    static func ends(_ field: String) -> (Int, Int?)? {
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard field.hasPrefix("bytes="), ends.count == 2, let start = Int(ends[0]) else { return nil }
        return (start, Int(ends[1]))
    }
}

extension Data {
    /// The digest, for tests that use only the public interface.
    var sha256: Data { Data(FileDigest.ofBytes(self).bytes) }
    var sha512: Data { (try? HashFunction.sha512.digest(of: self)).map { Data($0) } ?? Data() }

    func pieces(of count: Int) -> [Data] {
        stride(from: 0, to: self.count, by: count).map { Data(dropFirst($0).prefix(count)) }
    }
}

extension StubExchange {
    /// Answers in pieces, by default without a length.
    func answer(
        _ statusCode: Int, _ fields: HeaderFields = [:], expectedBytes: Int64? = nil, pieces: [Data],
        then end: RequestError? = nil
    ) {
        respond(ResponseHead(statusCode: statusCode, headerFields: fields, expectedBytes: expectedBytes))
        for piece in pieces { send(piece) }
        finish(end)
    }
}

extension RequestError {
    static let cut = RequestError(.connectionLost, "cut")
}

extension Locked<Int> {
    func countUp() -> Int {
        withLock { count in
            count += 1
            return count
        }
    }
}
