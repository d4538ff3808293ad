import Convoy
import Foundation

/// The digest also covers the key, and the head contains the digest of the body, so a reader detects a head that is
/// stored with the wrong key or body.
enum HeadCoding {
    static func encode(_ head: StoredHead, bodyDigest: Int64) -> Data {
        var writer = Writer(capacity: Int(head.headBytes))
        writer.add(head.key)
        writer.add(Int64(head.statusCode))
        writer.add(head.requestTime)
        writer.add(head.responseTime)
        writer.add(Int64(head.coding.rawValue))
        writer.add(head.bodyBytes)
        writer.add(head.offset)
        writer.add(head.totalBytes ?? -1)
        writer.add(head.isInvalid ? 1 : 0)
        writer.add(bodyDigest)
        writer.add(head.credentials)
        writer.add(head.requestedRange)
        writer.add(Int64(head.headerFields.count))
        for field in head.headerFields {
            writer.add(field.name)
            writer.add(field.value)
        }
        writer.add(Int64(head.vary.fields.count))
        for (name, value) in head.vary.fields.sorted(by: { $0.key < $1.key }) {
            writer.add(name)
            writer.add(value)
        }
        writer.add(writer.bytes.withUnsafeBytes { BodyDigest.of($0) })
        return Data(writer.bytes)
    }

    private static let times: ClosedRange<Int64> = -100_000_000_000...100_000_000_000

    /// Nil if the head is damaged.
    static func decode(_ data: Data) -> (head: StoredHead, bodyDigest: Int64)? {
        guard data.count > 8 else { return nil }
        var end = Reader(data.suffix(8))
        guard end.number() == BodyDigest.of(data.dropLast(8)) else { return nil }
        var reader = Reader(data.dropLast(8))
        guard let key = reader.text(), let status = reader.number(), let requestTime = reader.number(),
            let responseTime = reader.number(), let codingNumber = reader.number(),
            let coding = StoredHead.Coding(rawValue: Int(clamping: codingNumber)), let bodyBytes = reader.number(),
            let offset = reader.number(), let totalBytes = reader.number(), let isInvalid = reader.number(),
            let bodyDigest = reader.number(), let credentials = reader.optionalText(),
            let range = reader.optionalText(), let fieldCount = reader.number(),
            // The digest does not detect a forged head, so numbers that would overflow later count as damage.
            bodyBytes >= 0, offset >= 0, !offset.addingReportingOverflow(bodyBytes).overflow,
            times.contains(requestTime), times.contains(responseTime)
        else { return nil }
        var fields = HeaderFields()
        for _ in 0..<max(0, fieldCount) {
            guard let name = reader.text(), let value = reader.text() else { return nil }
            fields.add(name, value)
        }
        guard let varyCount = reader.number() else { return nil }
        var vary: [String: String?] = [:]
        for _ in 0..<max(0, varyCount) {
            guard let name = reader.text(), let value = reader.optionalText() else { return nil }
            vary[name] = .some(value)
        }
        var head = StoredHead(
            key: key, statusCode: Int(clamping: status), headerFields: fields, requestTime: requestTime,
            responseTime: responseTime, vary: VaryKey(fields: vary), credentials: credentials)
        (head.coding, head.bodyBytes, head.offset) = (coding, bodyBytes, offset)
        (head.totalBytes, head.requestedRange) = (totalBytes < 0 ? nil : totalBytes, range)
        head.isInvalid = isInvalid != 0
        return (head, bodyDigest)
    }

    private struct Writer {
        var bytes: [UInt8] = []

        init(capacity: Int) { bytes.reserveCapacity(capacity) }

        mutating func add(_ number: Int64) {
            withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        }

        mutating func add(_ text: String?) {
            guard let text else { return add(-1) }
            add(Int64(text.utf8.count))
            bytes.append(contentsOf: text.utf8)
        }
    }

    private struct Reader {
        private let data: Data
        private var index: Int

        init(_ data: Data) { (self.data, index) = (data, data.startIndex) }

        mutating func number() -> Int64? {
            guard data.endIndex - index >= 8 else { return nil }
            defer { index += 8 }
            let (data, start) = (data, index - data.startIndex)
            return data.withUnsafeBytes { Int64(littleEndian: $0.loadUnaligned(fromByteOffset: start, as: Int64.self)) }
        }

        // The outer nil means damage. The inner nil means that the text is absent.
        mutating func optionalText() -> String?? {
            guard let count = number() else { return nil }
            if count == -1 { return .some(nil) }
            guard count >= 0, count <= data.endIndex - index else { return nil }
            defer { index += Int(count) }
            return String(decoding: data[index..<index + Int(count)], as: UTF8.self)
        }

        mutating func text() -> String? { optionalText() ?? nil }
    }
}
