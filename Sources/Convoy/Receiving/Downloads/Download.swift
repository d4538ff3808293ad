// One operation's download: the part, what is known of it, and what becomes of it.
import Foundation

/// Keeps a part and its record over all attempts of an operation.
///
/// The order of what is written is the promise: the record of other bytes goes before they do, a part is never longer
/// than what its record speaks of, and the target gets its name when everything has been checked and synchronised.
final class Download: DownloadTarget, @unchecked Sendable {
    // @unchecked: everything that changes is touched on `queue` only, but for `flags`, which have a lock; while a file is
    // given its name, which `DiskSync` may do, nothing else happens on `queue`.

    private struct Flags {
        var isStopped = false
        var keepsPart = false
        /// The file has its name: there is nothing to let go of.
        var isPlaced = false
    }

    /// Losing less than this is not worth a file beside the file.
    static let smallBytes: Int64 = 1 << 20
    /// How much is written between two points at which everything is on the disk.
    static let checkpointBytes: Int64 = 64 << 20
    static let checkpointInterval = Duration.seconds(10)

    let plan: DownloadPlan
    let queue = DispatchQueue(label: "convoy.download")
    private let flags = Locked(Flags())
    var keepsPart: Bool { flags.withLock { $0.keepsPart } }

    var part: PartFile?
    var resumeFile: ResumeFile?
    /// The target's name; the one that was free, where existing files stay.
    var stem = ""
    /// Its number, where the first names were taken.
    var stemNumber = 0
    /// What the bytes of the part are of; nil when they cannot be continued.
    var record: ResumeRecord? {
        didSet { if (record == nil) != (oldValue == nil) { flags.withLock { $0.keepsPart = record != nil } } }
    }
    var isRecordSaved = false
    /// Whether the request leaves ranges and codings to us.
    var isContinuable = false
    /// Whether the part has been let go of, for good.
    var isClosed = false
    /// Whether anything has been done to what was found.
    var hasBegunBody = false
    /// How much of what was found can be continued.
    var foundBytes: Int64 = 0
    /// What the part is recognised by: where the first attempt went, whatever redirects say.
    var key = ""
    var totalBytes: Int64?
    var expected: FileDigest?
    var digest: RunningDigest?
    var lastCheckpoint: (byteCount: Int64, moment: ContinuousClock.Instant) = (0, .now)

    /// How far a download in segments has come.
    let progress = Locked(TransferProgress())
    /// Whether it is filled in several places at once.
    let isSegmented: Bool
    var segments = SegmentTable()

    init(_ plan: DownloadPlan, isSegmented: Bool = false) {
        self.plan = plan
        self.isSegmented = isSegmented
    }

    /// Notes that the part has become the file.
    func notePlaced() { flags.withLock { $0.isPlaced = true } }
    var isPlaced: Bool { flags.withLock { $0.isPlaced } }

    func stop() { flags.withLock { $0.isStopped = true } }
    var isStopped: Bool { flags.withLock { $0.isStopped } }

    // MARK: Before an attempt

    /// Opens the part, the first time.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void
    ) {
        queue.async {
            let result: Result<DownloadBeginning, RequestError>
            do throws(RequestError) {
                result = .success(try self.begin(request, asksForWhole: asksForWhole))
            } catch {
                result = .failure(error)
            }
            completion(result)
        }
    }

    private func begin(_ request: PreparedRequest, asksForWhole: Bool) throws(RequestError) -> DownloadBeginning {
        // Its operation may have ended meanwhile.
        guard !isClosed, !isStopped else { throw RequestError(.cancelled, "the download is over") }
        if part == nil {
            try plan.checkWritable()
            if let file = try existingFile() { return .isThere(file) }
            try openPart(request)
        }
        isContinuable = request.canBeContinued
        var request = request
        if request.keepsCoding { request.headerFields["Accept-Encoding"] = "identity" }
        guard let part, isContinuable else { return .send(request, continuing: nil) }
        let usable = hasBegunBody ? part.byteCount : foundBytes
        guard let record, usable > 0, !asksForWhole else { return .send(request, continuing: nil) }
        let point = ResumePoint(
            byteCount: usable, validator: record.validator, totalBytes: record.totalBytes, coding: record.coding)
        point.add(to: &request.headerFields)
        return .send(request, continuing: point)
    }

    /// The file that makes the download unnecessary.
    private func existingFile() throws(RequestError) -> URL? {
        guard case .file(let file) = plan.target, plan.existing == .fail || plan.existing == .skip,
            plan.exists(file.lastPathComponent)
        else { return nil }
        guard plan.existing == .skip else { throw plan.existsAlready(file.lastPathComponent) }
        // A link to nowhere is no file.
        var status = stat()
        guard stat(file.path, &status) == 0 else { return nil }
        guard let wanted = plan.digest else { return file }
        return try FileDigest.ofFile(file.path, wanted.algorithm, while: { !isStopped }) == wanted
            ? file : nil
    }

    private func openPart(_ request: PreparedRequest) throws(RequestError) {
        key = request.downloadKey
        let first = plan.partStem(request)
        var number = 0
        while true {
            (stem, stemNumber) = (number == 0 ? first : FileName.numbered(first, number), number)
            let name = PartName(stem)
            do throws(RequestError) {
                if plan.existing == .rename, case .file = plan.target, plan.exists(stem) { throw .inUse(stem) }
                part = try PartFile.open(plan.directory.path + "/" + name.part, permissions: plan.permissions)
            } catch {
                // The next name may be free.
                guard plan.existing == .rename, error.code == .destinationInUse else { throw error }
                guard number < 10_000 else { throw plan.existsAlready(stem) }
                number += 1
                continue
            }
            resumeFile = ResumeFile(path: plan.directory.path + "/" + name.record)
            return try lookAtPart(request)
        }
    }

    /// Decides what of the part can be continued.
    private func lookAtPart(_ request: PreparedRequest) throws(RequestError) {
        guard let part, let resumeFile else { return }
        // A record without bytes is of others.
        guard part.wasThere else {
            unlink(resumeFile.path)
            return
        }
        guard let found = try resumeFile.read(), found.key == key, found.needsDigest != true || plan.digest != nil
        else {
            return
        }
        let ranges = found.usableRanges(ofPart: part.byteCount, boot: Boot.name)
        let lasting = found.usableRanges(ofPart: part.byteCount, boot: nil)
        if isSegmented {
            (segments.there, segments.syncedRanges) = (ranges, lasting)
            (record, isRecordSaved) = (found, true)
            return
        }
        guard let first = ranges.first, first.lowerBound == 0 else { return }
        (record, isRecordSaved, foundBytes) = (found, true, first.upperBound)
        let lastingBytes = lasting.first.map { $0.lowerBound == 0 ? min(foundBytes, $0.upperBound) : 0 } ?? 0
        lastCheckpoint = (lastingBytes, .now)
    }

    /// Cuts off what is not continued; from now on the length of the part counts.
    ///
    /// Not before an answer says that it is continued: until then other ranges of it may be of use.
    func takeFound(_ byteCount: Int64) throws(RequestError) {
        guard !hasBegunBody, let part, var found = record else { return }
        hasBegunBody = true
        try part.truncate(to: byteCount)
        guard found.boot != Boot.name || found.ranges != nil else { return }
        found.syncedBytes = lastCheckpoint.byteCount
        (found.boot, found.ranges, found.syncedRanges) = (Boot.name, nil, nil)
        record = found
        try resumeFile?.write(found, synchronized: false)
    }
}
