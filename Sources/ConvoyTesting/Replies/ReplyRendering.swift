import Convoy
import Foundation

extension Reply {
    /// The steps that send this reply to a request, and whether the connection can then serve another request.
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

    /// The steps to perform at a moment of the request, before the response is sent.
    func steps(at moment: Moment) -> [Step] {
        effects.filter { $0.moment == moment }.map(\.step)
    }

    /// The byte counts at which steps are due while the request's body is read, in order.
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
