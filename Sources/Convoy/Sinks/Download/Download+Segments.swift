// A download that writes several segments of one file.
import Foundation

extension Download {
    /// The number of bytes between two saves of the segment table; a killed process loses about that many bytes at
    /// most.
    private static let saveBytes: Int64 = 4 << 20

    /// Divides the file into segments.
    ///
    /// - Parameters:
    ///   - head: the response to the request for the first byte.
    ///   - count: the approximate number of segments.
    /// - Returns: the missing segments; nil when the server does not support ranges of one version, or when the file is
    ///   too small for segments.
    /// - Thread: the serial executor.
    func beginSegments(
        _ head: ResponseHead, count: Int, hasMirrors: Bool
    ) throws(RequestError) -> [FileSegment]? {
        guard let part, head.statusCode == 206,
            let field = head.headerFields["Content-Range"], let content = ContentRange(field),
            content.range?.lowerBound == 0, let total = content.totalBytes, total >= 2 * Self.smallBytes,
            // The part is one byte longer than the file, so its length must not overflow.
            total < .max,
            let validator = Validator(of: head, now: Date())
        else { return nil }
        if record?.validator != validator || record?.totalBytes != total || part.byteCount > total + 1
            || record?.coding != head.coding
            || plan.digest == nil && head.url.map({ record?.isOf($0) == true }) == false
        {
            try clear()
            record = ResumeRecord(key: key, validator: validator, totalBytes: total, boot: Boot.name)
            record?.coding = head.coding
        }
        if hasMirrors { record?.needsDigest = true }
        record?.source = head.url.map(validator.source)
        hasBegunBody = true
        record?.boot = Boot.name
        totalBytes = total
        expected = plan.digest ?? head.headerFields.representationDigest
        try checkSpace(total - segments.byteCount)
        segments.divide(totalBytes: total, into: count, atLeast: Self.smallBytes)
        // The record is saved before the part is lengthened, because the length then no longer shows how much was
        // received. The part is one byte longer than the file, so that no segment reaches the end of the part. If
        // another process truncates the part, it stays shorter, and `checkIntact()` detects that.
        try saveRecord(synchronized: false)
        try part.truncate(to: total + 1)
        noteProgress()
        shared.withLock { $0.progress.resumedBytes = $0.progress.download.completedBytes }
        return segments.segments.indices.map {
            FileSegment(
                self, index: $0, range: segments.segments[$0].range, validator, of: record?.source, total, head.coding)
        }
    }

    /// - Thread: the serial executor.
    func write(_ data: Data, toSegment index: Int) throws(RequestError) {
        guard let part, segments.segments.indices.contains(index) else { return }
        var position = segments.segments[index].position
        let before = position
        guard position + Int64(data.count) <= segments.segments[index].range.upperBound else {
            throw RequestError(.badResponse, "the server sent more than the announced range")
        }
        defer { noteProgress() }
        do throws(RequestError) { try part.write(data, at: &position) } catch {
            segments.segments[index].position = position
            throw error
        }
        try checkIntact()
        segments.segments[index].position = position
        segments.unsavedBytes += position - before
        segments.unsyncedBytes += position - before
        let isDue = .now - lastCheckpoint.moment >= Self.checkpointInterval && segments.unsyncedBytes >= Self.smallBytes
        if segments.unsyncedBytes >= Self.checkpointBytes || isDue {
            try synchronize()
            lastCheckpoint.moment = .now
            (segments.syncedRanges, segments.unsyncedBytes, segments.unsavedBytes) = (segments.ranges, 0, 0)
            try saveRecord(synchronized: true)
        } else if segments.unsavedBytes >= Self.saveBytes {
            segments.unsavedBytes = 0
            try saveRecord(synchronized: false)
        }
    }

    func noteProgress() {
        let (count, total) = (segments.byteCount, totalBytes)
        shared.withLock { shared in
            shared.progress.download.completedBytes = count
            shared.progress.download.totalBytes = total
        }
    }
}

/// A segment of a file, filled by the attempts of one operation.
final class FileSegment: DownloadTarget, Sendable {
    private let download: Download
    let index: Int
    let range: Range<Int64>
    /// The version to request; nil for a mirror, whose validators differ.
    private let validator: Validator?
    /// The source of the validator, see `Validator.source(_:)`; nil when any source is acceptable.
    private let source: String?
    private let totalBytes: Int64
    private let coding: String?

    init(
        _ download: Download, index: Int, range: Range<Int64>, _ validator: Validator?, of source: String?,
        _ totalBytes: Int64, _ coding: String?
    ) {
        self.download = download
        self.index = index
        self.range = range
        self.validator = validator
        self.source = source
        self.totalBytes = totalBytes
        self.coding = coding
    }

    /// The same segment for a mirror.
    var withoutVersion: FileSegment {
        FileSegment(download, index: index, range: range, nil, of: nil, totalBytes, coding)
    }

    var executor: DiskExecutor { download.executor }
    var keepsPart: Bool { true }
    var isStopped: Bool { download.isStopped }

    private var position: Int64? {
        download.segments.segments.indices.contains(index) ? download.segments.segments[index].position : nil
    }

    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void
    ) {
        executor.async {
            guard let position = self.position else {
                return completion(.failure(RequestError(.cancelled, "the download has ended")))
            }
            guard position < self.range.upperBound else {
                return completion(.success(.isThere(self.download.plan.directory)))
            }
            var request = request
            request.askForIdentity()
            // No range is requested if the URL is not the validator's, for example after a redirect.
            if let source = self.source, source != self.validator?.source(request.url) {
                return completion(.success(.send(request, continuing: nil)))
            }
            request.headerFields["Range"] = "bytes=\(position)-\(self.range.upperBound - 1)"
            request.headerFields["If-Range"] = self.validator?.fieldValue
            let point = ResumePoint(
                byteCount: position, validator: self.validator, totalBytes: self.totalBytes, coding: self.coding)
            completion(.success(.send(request, continuing: point)))
        }
    }

    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool
    ) -> DownloadAnswer {
        let answer = DownloadAnswer(head, continuing: point, asksForRange: asksForRange, isRefused: isRefused)
        switch answer {
        case .refused: return answer
        case .mismatch(let reason, _): return .mismatch(reason: reason, canStartOver: false)
        case .isWhole, .isUnchanged:
            return .mismatch(reason: "the server's file ends before the segment", canStartOver: false)
        case .body(0, _) where head.statusCode != 206:
            return .mismatch(
                reason: "the server sent the complete file or another version instead of the requested segment",
                canStartOver: false)
        case .body(let offset, _):
            let range = head.headerFields["Content-Range"].flatMap { ContentRange($0)?.range }
            guard let range, range.upperBound <= self.range.upperBound else {
                return .mismatch(
                    reason: "the server sent more than the requested segment", canStartOver: false)
            }
            return .body(from: offset - self.range.lowerBound, totalBytes: self.range.count64)
        }
    }

    /// Moves the segment's position to the first byte of this body, even if an earlier body has passed it.
    func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest) throws(RequestError) {
        guard case .body(let offset, _) = answer, let position, range.lowerBound + offset <= position else {
            throw RequestError(.badResponse, "the response begins after the bytes already received")
        }
        let end = head.headerFields["Content-Range"].flatMap { ContentRange($0)?.range?.upperBound }
        download.segments.segments[index].body = (start: position, end: end ?? range.upperBound)
        download.segments.segments[index].position = range.lowerBound + offset
    }

    func write(_ data: Data) throws(RequestError) { try download.write(data, toSegment: index) }

    /// The least number of bytes by which a body that ends early must advance the segment.
    ///
    /// Without this minimum, a server could cause a request for each byte.
    private static let leastBytes: Int64 = 64 << 10

    /// Checks that the announced bytes have arrived.
    ///
    /// A server may send fewer bytes than were requested (RFC 9110, section 15.3.7). The rest is then requested next.
    func verify() throws(RequestError) {
        guard let position, position < range.upperBound else { return }
        if let body = download.segments.segments[index].body, position == body.end,
            position - body.start >= Self.leastBytes
        {
            return
        }
        throw RequestError(
            .connectionLost,
            "the segment ended after \(position - range.lowerBound) of \(range.count64) bytes")
    }

    func commit(
        _ head: ResponseHead, of request: PreparedRequest,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void
    ) { completion(.success(download.plan.directory)) }

    /// Whether bytes of the segment are missing.
    var isIncomplete: Bool {
        get async {
            await withUnsafeContinuation { continuation in
                executor.async {
                    continuation.resume(returning: self.position.map { $0 < self.range.upperBound } == true)
                }
            }
        }
    }

    func stop() {}
    func close(_ completion: @escaping @Sendable () -> Void) { executor.async(completion) }
}
