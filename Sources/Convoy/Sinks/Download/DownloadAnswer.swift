// What an answer means for what is there already: RFC 9110, sections 13.1.5, 14.4 and 15.3.7.
import Foundation

/// From where a download goes on.
struct ResumePoint: Hashable, Sendable {
    /// How many bytes are there; of a whole file one fewer, see ``init(of:usableBytes:)``.
    let byteCount: Int64
    /// Which version they are of; nil where that is not known.
    let validator: Validator?
    /// The length of the whole, where it is known.
    let totalBytes: Int64?
    /// The content coding of the whole.
    let coding: String?

    init(byteCount: Int64, validator: Validator?, totalBytes: Int64?, coding: String?) {
        (self.byteCount, self.validator, self.totalBytes, self.coding) = (byteCount, validator, totalBytes, coding)
    }

    /// The point behind the bytes that are there, or before the last of them where nothing is missing.
    ///
    /// A range behind the end gets a 416, with which most servers tell no version. One byte that is sent again comes with
    /// the version.
    init(of record: ResumeRecord, usableBytes: Int64) {
        self.init(
            byteCount: usableBytes == record.totalBytes ? usableBytes - 1 : usableBytes, validator: record.validator,
            totalBytes: record.totalBytes, coding: record.coding)
    }

    /// What the request says so that only the rest is sent, and only of the same representation.
    func add(to headerFields: inout HeaderFields) {
        headerFields["Range"] = "bytes=\(byteCount)-"
        headerFields["If-Range"] = validator?.fieldValue
    }
}

/// What an answer is for a download; a value, decided by the head alone.
enum DownloadAnswer: Hashable, Sendable {
    /// Its body is the file from this byte on, 0 for all of it.
    case body(from: Int64, totalBytes: Int64?)
    /// Nothing is missing of what is there.
    case isWhole(byteCount: Int64)
    /// The file that an earlier download has left is still the one that the server has.
    case isUnchanged
    /// It does not continue what is there, which is left alone; whether the whole may be asked for instead.
    case mismatch(reason: String, canStartOver: Bool)
    /// It is not acceptable, and says nothing about what is there.
    case refused

    var canStartOver: Bool { if case .mismatch(_, let canStartOver) = self { canStartOver } else { false } }

    /// - Parameters:
    ///   - point: what was asked to be continued; nil when the whole was asked for.
    ///   - asksForRange: whether the request itself asks for a range.
    ///   - isRefused: whether the request does not accept the status.
    init(_ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool) {
        switch (head.statusCode, point) {
        case (206, let point?):
            self = isRefused ? .refused : Self.partial(head, continuing: point)
        case (200, let point?) where !isRefused && Self.isRange(head):
            // The field means nothing here (section 14.4). But the bytes are those that it names, and no whole.
            self = Self.partial(head, continuing: point)
        case (416, let point?):
            self = Self.unsatisfied(head, continuing: point)
        case (304, _) where !isRefused:
            self = .isUnchanged
        case (204, _) where !isRefused, (205, _) where !isRefused:
            // An empty file is not what was asked for, least of all in the place of one that is there.
            self = .mismatch(
                reason: "the server answered \(head.statusCode), which has no content to be saved", canStartOver: false)
        case (206, nil) where !asksForRange && !isRefused:
            self = .mismatch(reason: "the server sent a range (206) where the whole was asked for", canStartOver: false)
        default:
            self = isRefused ? .refused : .body(from: 0, totalBytes: head.statusCode == 200 ? head.expectedBytes : nil)
        }
    }

    /// Whether the content is less than the whole, by what the answer says of it.
    private static func isRange(_ head: ResponseHead) -> Bool {
        guard let content = head.headerFields["Content-Range"].flatMap(ContentRange.init), let range = content.range
        else { return false }
        return range != 0..<(content.totalBytes ?? range.upperBound)
    }

    private static func partial(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        func mismatch(_ reason: String) -> DownloadAnswer { .mismatch(reason: reason, canStartOver: true) }
        // One that is asked for by `If-Range` may leave the coding out (RFC 9110, section 15.3.7).
        if let coding = head.coding, coding != point.coding {
            return mismatch("the server sent the range in another content coding")
        }
        let fields = head.headerFields.values(of: "Content-Range")
        guard let field = fields.first, fields.count == 1 else {
            return mismatch("the server sent a range (206) without saying which")
        }
        guard let content = ContentRange(field), let range = content.range else {
            return mismatch("the server sent a range (206) that is none: \(field.debugDescription)")
        }
        guard range.lowerBound == point.byteCount else {
            return mismatch(
                "the server sent the bytes from \(range.lowerBound) on, asked for those from \(point.byteCount)")
        }
        if let total = content.totalBytes, let expected = point.totalBytes, total != expected {
            return mismatch("the server sent a range of \(total) bytes, where the whole had \(expected)")
        }
        if let expected = head.expectedBytes, expected != range.count64 {
            return mismatch("the server announced \(expected) bytes for a range of \(range.count64)")
        }
        guard point.validator?.matches(head) != false else {
            return mismatch("the server sent a range of another version, or of one that it does not name")
        }
        // A range may be shorter than what was asked for (section 15.3.7): without a length the end of the file is unknown.
        guard let total = content.totalBytes ?? point.totalBytes else {
            return mismatch("the server sent a range of a whole of unknown length")
        }
        return .body(from: point.byteCount, totalBytes: total)
    }

    private static func unsatisfied(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        let content = head.headerFields["Content-Range"].flatMap(ContentRange.init)
        guard let content, content.range == nil, content.totalBytes == point.byteCount,
            point.totalBytes ?? point.byteCount == point.byteCount, point.validator?.matches(head) != false
        else {
            return .mismatch(
                reason: "the server has nothing behind the \(point.byteCount) bytes that are there", canStartOver: true)
        }
        return .isWhole(byteCount: point.byteCount)
    }
}

extension TransferProgress {
    /// Begins anew with an answer: what is there counts as received where the answer continues it.
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

/// An answer that is not of the range that was asked for, or not of that version.
struct UnexpectedRange: Error {}
