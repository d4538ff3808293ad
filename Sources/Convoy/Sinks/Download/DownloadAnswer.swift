// The meaning of a response for the existing bytes: RFC 9110, sections 13.1.5, 14.4 and 15.3.7.
import Foundation

/// The position at which a download resumes.
struct ResumePoint: Hashable, Sendable {
    /// The number of existing bytes.
    ///
    /// For a complete file, the number is one less; see ``init(of:usableBytes:)``.
    let byteCount: Int64
    /// The version of the existing bytes; nil when unknown.
    let validator: Validator?
    /// The length of the complete file, if known.
    let totalBytes: Int64?
    /// The content coding of the complete file.
    let coding: String?

    init(byteCount: Int64, validator: Validator?, totalBytes: Int64?, coding: String?) {
        (self.byteCount, self.validator, self.totalBytes, self.coding) = (byteCount, validator, totalBytes, coding)
    }

    /// The position after the existing bytes, or before the last byte if the file is complete.
    ///
    /// A range after the end results in a 416, which usually has no validator. The response with the last byte has one.
    init(of record: ResumeRecord, usableBytes: Int64) {
        self.init(
            byteCount: usableBytes == record.totalBytes ? usableBytes - 1 : usableBytes, validator: record.validator,
            totalBytes: record.totalBytes, coding: record.coding)
    }

    /// Adds the fields that request only the rest of the same representation.
    func add(to headerFields: inout HeaderFields) {
        headerFields["Range"] = "bytes=\(byteCount)-"
        headerFields["If-Range"] = validator?.fieldValue
    }
}

/// The meaning of a response for a download, decided by its head alone.
enum DownloadAnswer: Hashable, Sendable {
    /// The body is the file from this byte on; 0 for the complete file.
    case body(from: Int64, totalBytes: Int64?)
    /// The existing bytes are the complete file.
    case isWhole(byteCount: Int64)
    /// The file of an earlier download is still current on the server.
    case isUnchanged
    /// The response does not continue the existing bytes, which stay stored.
    ///
    /// `canStartOver` allows a request for the complete file.
    case mismatch(reason: String, canStartOver: Bool)
    /// The response is not acceptable, and says nothing about the existing bytes.
    case refused

    var canStartOver: Bool { if case .mismatch(_, let canStartOver) = self { canStartOver } else { false } }

    /// - Parameters:
    ///   - point: the position to resume at; nil for a request for the complete file.
    ///   - asksForRange: whether the caller's request has a `Range` field.
    ///   - isRefused: whether the request does not accept the response's status or content type.
    init(_ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool) {
        switch (head.statusCode, point) {
        case (206, let point?):
            self = isRefused ? .refused : Self.partial(head, continuing: point)
        case (200, let point?) where !isRefused && Self.isRange(head):
            // `Content-Range` has no meaning with status 200 (RFC 9110, section 14.4). But the body is the range that
            // the field names, not the complete file.
            self = Self.partial(head, continuing: point)
        case (416, let point?):
            self = Self.unsatisfied(head, continuing: point)
        case (304, _) where !isRefused:
            self = .isUnchanged
        case (204, _) where !isRefused, (205, _) where !isRefused:
            // A 204 or 205 has no content, so it must not replace an existing file by an empty one.
            self = .mismatch(
                reason: "the server answered \(head.statusCode), which has no content to save",
                canStartOver: point != nil)
        case (206, nil) where !asksForRange && !isRefused:
            self = .mismatch(
                reason: "the server sent a range (206) although the complete file was requested", canStartOver: false)
        case (let status, .some) where isRefused && Self.refusesRange(status):
            self = .mismatch(reason: "the server refused the range", canStartOver: true)
        default:
            self = isRefused ? .refused : .body(from: 0, totalBytes: head.statusCode == 200 ? head.expectedBytes : nil)
        }
    }

    /// Whether the server may refuse only the range, so that it may send the complete file.
    ///
    /// Other statuses concern a proxy, a limit of requests, or a server that is not available now. A redirect that can
    /// be followed and a 401 that can be answered have led to another attempt before.
    static func refusesRange(_ statusCode: Int) -> Bool {
        switch statusCode {
        case 407, 408, 425, 429: false
        case 204, 205, 300..<500, 501, 505: true
        default: false
        }
    }

    /// Whether the content is only a part of the representation, according to its header.
    private static func isRange(_ head: ResponseHead) -> Bool {
        guard let content = head.headerFields["Content-Range"].flatMap(ContentRange.init), let range = content.range
        else { return false }
        return range != 0..<(content.totalBytes ?? range.upperBound)
    }

    private static func partial(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        func mismatch(_ reason: String) -> DownloadAnswer { .mismatch(reason: reason, canStartOver: true) }
        // A 206 to `If-Range` may omit the coding (RFC 9110, section 15.3.7).
        if let coding = head.coding, coding != point.coding {
            return mismatch("the server sent the range in another content coding")
        }
        let fields = head.headerFields.values(of: "Content-Range")
        guard let field = fields.first, fields.count == 1 else {
            return mismatch("the server sent a range (206) without a Content-Range")
        }
        guard let content = ContentRange(field), let range = content.range else {
            return mismatch("the server sent an invalid range (206): \(field.debugDescription)")
        }
        guard range.lowerBound == point.byteCount else {
            return mismatch(
                "the server sent the bytes from \(range.lowerBound) on instead of those from \(point.byteCount)")
        }
        if let total = content.totalBytes, let expected = point.totalBytes, total != expected {
            return mismatch("the server sent a range of a file of \(total) bytes, but the file had \(expected)")
        }
        if let expected = head.expectedBytes, expected != range.count64 {
            return mismatch("the server announced \(expected) bytes for a range of \(range.count64)")
        }
        guard point.validator?.matches(head) != false else {
            return mismatch("the server sent a range of another or an unnamed version")
        }
        // A range may be shorter than requested (RFC 9110, section 15.3.7). So without a length the end of the file is
        // unknown.
        guard let total = content.totalBytes ?? point.totalBytes else {
            return mismatch("the server sent a range of a file of unknown length")
        }
        return .body(from: point.byteCount, totalBytes: total)
    }

    private static func unsatisfied(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        let content = head.headerFields["Content-Range"].flatMap(ContentRange.init)
        guard let content, content.range == nil, content.totalBytes == point.byteCount,
            point.totalBytes ?? point.byteCount == point.byteCount, point.validator?.matches(head) != false
        else {
            return .mismatch(
                reason: "the server has no bytes after the \(point.byteCount) bytes of the part", canStartOver: true)
        }
        return .isWhole(byteCount: point.byteCount)
    }
}

extension TransferProgress {
    /// Resets the progress for a new response.
    ///
    /// Existing bytes count as received if the response continues them.
    mutating func begin(_ head: ResponseHead, _ answer: DownloadAnswer) {
        switch answer {
        case .body(let offset, let total):
            resumedBytes = offset
            download.totalBytes = total ?? head.expectedBytes.map { $0.addingReportingOverflow(offset).partialValue }
        case .isWhole(let byteCount): (resumedBytes, download.totalBytes) = (byteCount, byteCount)
        case .isUnchanged, .mismatch, .refused: (resumedBytes, download.totalBytes) = (0, head.expectedBytes)
        }
        download.completedBytes = resumedBytes
    }
}

/// The error for a response with another range or version than requested.
struct UnexpectedRange: Error {}

extension RequestError {
    /// Whether a request for the complete file may succeed where the request for a range failed.
    var isOfRange: Bool {
        underlying is UnexpectedRange
            || code == .unacceptableStatus && response.map { DownloadAnswer.refusesRange($0.statusCode) } == true
    }
}
