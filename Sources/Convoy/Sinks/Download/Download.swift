// The download of one operation: the part, its record, and its end.
import Foundation

/// Manages a part (the partial file) and its record during all attempts of an operation.
///
/// Crash safety depends on the order of writes. A record is removed before its bytes. A part never has bytes of
/// another version than its record. The part is renamed to the target after everything was verified and synchronised.
final class Download: DownloadTarget, @unchecked Sendable {
    // @unchecked: only `executor` uses the mutable state, except `shared`, which has a lock. `DiskSync` may end the
    // download on another executor; until then, nothing runs on `executor`.

    /// The state that any thread may use, guarded by a lock.
    struct Shared {
        var isStopped = false
        /// The URL of a download that is cancelled and leaves no part.
        var discarded: URL?
        var keepsPart = false
        /// Whether the last request was conditional on a change of the file.
        var asksForChange = false
        /// The progress of a segmented download.
        var progress = TransferProgress()
    }

    /// Fewer bytes than this do not justify a record, a checkpoint or a segment of their own.
    static let smallBytes: Int64 = 1 << 20
    /// The number of written bytes after which a checkpoint synchronises the part and its record.
    static let checkpointBytes: Int64 = 64 << 20
    static let checkpointInterval = Duration.seconds(10)
    /// The maximum number of existing bytes that are read for a digest before each write.
    static let catchUpBytes: Int64 = 4 << 20

    let plan: DownloadPlan
    /// The path of the file's directory.
    let directory: String
    /// The file's name in `directory`; nil when the response decides the name.
    let fileName: String?
    let executor = DiskExecutor()
    let shared = Locked(Shared())
    var keepsPart: Bool { shared.withLock { $0.keepsPart } }

    var part: PartFile?
    var resumeFile: SidecarFile<ResumeRecord> { SidecarFile(path: directory + "/" + PartName(stem).record) }
    var versionFile: SidecarFile<KeptVersion> { SidecarFile(path: directory + "/" + PartName(stem).version) }
    /// The version of the existing file; nil when the file is fetched unconditionally.
    ///
    /// Set when the part is opened, before anything is sent.
    var version: KeptVersion?
    /// Whether the response says that the existing file is current.
    var isUnchanged = false
    /// The name from which the names of the part and its record are made.
    ///
    /// With `ExistingFile.rename`, the first free numbered name.
    var stem = ""
    /// The number in `stem`; 0 if the first name was free.
    var stemNumber = 0
    /// The description of the part's bytes; nil when they cannot be resumed.
    var record: ResumeRecord? {
        didSet {
            if record == nil { origin = nil }
            if (record == nil) != (oldValue == nil) { shared.withLock { $0.keepsPart = record != nil } }
        }
    }
    var isRecordSaved = false
    /// ``ResumeRecord/notedBytes`` of the part's first record, which every later record of this download keeps.
    private(set) var notedBytes: Int64?
    /// Whether the caller's request allows range requests, so that the download can be resumed.
    var isContinuable = false
    /// Whether the part was released permanently.
    var isClosed = false
    /// Whether this download has begun to change the existing part.
    var hasBegunBody = false
    /// How many bytes of a part from an earlier attempt or download can be resumed.
    var foundBytes: Int64 = 0
    /// The URL of the first attempt, which identifies the part.
    private var first: URL?
    /// Identifies the part: a hash of the first attempt's URL, regardless of redirects.
    private(set) lazy var key = first?.downloadKey ?? ""
    /// The response that the record describes, and its request; nil once the record is complete.
    var origin: (head: ResponseHead, request: PreparedRequest)?
    var totalBytes: Int64?
    var expected: FileDigest?
    var digest: RunningDigest?
    var lastCheckpoint: (byteCount: Int64, moment: ContinuousClock.Instant) = (0, .now)

    /// Whether the download writes several segments of the file at the same time.
    let isSegmented: Bool
    var segments = SegmentTable()

    init(_ plan: DownloadPlan, isSegmented: Bool = false) {
        self.plan = plan
        (directory, fileName) = plan.place
        self.isSegmented = isSegmented
    }

    var asksForChange: Bool { shared.withLock { $0.asksForChange } }
    func stop() { shared.withLock { $0.isStopped = true } }
    var isStopped: Bool { shared.withLock { $0.isStopped } }

    var isDiscarded: Bool { shared.withLock { $0.discarded != nil } }

    /// Makes the end of the download remove its part, also that of an earlier download of this URL.
    func discardPart(of url: URL) { shared.withLock { $0.discarded = url } }

    // MARK: Before an attempt

    /// Opens the part in the first attempt, and prepares the request.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void
    ) {
        // This code runs before the waiting writes of other downloads, so that the network has work meanwhile.
        executor.async(isFirst: true) {
            completion(Result { () throws(RequestError) in try self.begin(request, asksForWhole: asksForWhole) })
        }
    }

    private func begin(_ request: PreparedRequest, asksForWhole: Bool) throws(RequestError) -> DownloadBeginning {
        // The operation may have ended before this code runs.
        guard !isClosed, !isStopped else { throw RequestError(.cancelled, "the download has ended") }
        if part == nil {
            let permissions = try fileName.map { name throws(RequestError) in
                try plan.checkWritable(name, in: directory)
            }
            if let file = try existingFile() { return .isThere(file) }
            try openPart(of: request.url, permissions: permissions ?? plan.permissions)
            version = try request.canBeContinued ? findVersion() : nil
        }
        isContinuable = request.canBeContinued
        var request = request
        if request.keepsCoding {
            request.askForIdentity()
        } else {
            request.keepsUnknownCodings = true
        }
        let asksForChange = isContinuable && version?.isOf(request.url) == true
        if plan.existing == .updateIfChanged { shared.withLock { $0.asksForChange = asksForChange } }
        guard let part, isContinuable else { return .send(request, continuing: nil) }
        // The condition is sent with a range too, because the server evaluates it first (RFC 9110, section 13.2.2).
        if asksForChange { version?.add(to: &request.headerFields) }
        completeRecord()
        let usable = hasBegunBody ? part.byteCount : foundBytes
        // After a redirect, the URL may name another resource. With a digest, the bytes may come from any source.
        guard let record, !asksForWhole, record.isOf(request.url) || plan.digest != nil else {
            return .send(request, continuing: nil)
        }
        let point = ResumePoint(of: record, usableBytes: usable)
        guard point.byteCount > 0 else { return .send(request, continuing: nil) }
        point.add(to: &request.headerFields)
        return .send(request, continuing: point)
    }

    /// The existing file that makes the download unnecessary; nil if the download is necessary.
    private func existingFile() throws(RequestError) -> URL? {
        guard case .file(let file) = plan.target, let fileName, plan.existing == .fail || plan.existing == .skip,
            plan.exists(fileName)
        else { return nil }
        sweep(fileName)
        guard plan.existing == .skip else { throw plan.existsAlready(fileName) }
        guard let wanted = plan.digest else {
            try plan.checkFile(fileName)
            return file
        }
        // A dangling link is not a file.
        var status = stat()
        guard stat(file.path, &status) == 0 else { return nil }
        return try FileDigest.ofFile(file.path, wanted.algorithm, while: { !isStopped }) == wanted
            ? file : nil
    }

    /// The name that the part is derived from: the file's name, or the hash of the URL.
    var partStem: String { fileName ?? String(key.prefix(32)) }

    func openPart(of url: URL, permissions: mode_t) throws(RequestError) {
        // After a redirect a released part is opened again. The first URL still identifies the part.
        first = first ?? url
        let firstStem = partStem
        var number = 0
        while true {
            (stem, stemNumber) = (
                number == 0 ? firstStem : FileName.numbered(firstStem, number), number
            )
            do throws(RequestError) {
                if plan.existing == .rename, case .file = plan.target, plan.exists(stem) {
                    sweep(stem)
                    throw .inUse(stem)
                }
                part = try PartFile.open(
                    directory + "/" + PartName(stem).part, permissions: permissions, isFilledInPlace: isSegmented)
            } catch {
                // The next numbered name may be free.
                guard plan.existing == .rename, error.code == .destinationInUse else { throw error }
                guard number < 10_000 else { throw plan.existsAlready(stem) }
                number += 1
                continue
            }
            return try lookAtPart()
        }
    }

    /// Removes leftovers of a download that was killed at its end, after the file was complete.
    ///
    /// Leftovers are a record without a part, an empty part, and a part that is another name of the file itself. Files
    /// of another download are not removed.
    private func sweep(_ fileName: String) {
        let (name, directory) = (PartName(fileName), self.directory + "/")
        var (file, part, record) = (stat(), stat(), stat())
        if lstat(directory + name.part, &part) == 0 {
            guard lstat(directory + fileName, &file) == 0,
                part.st_size == 0 || part.st_ino == file.st_ino && part.st_dev == file.st_dev
            else { return }
        } else if lstat(directory + name.record, &record) != 0 {
            return
        }
        // Opening locks a part for this process, and removes a second name of the file.
        guard let left = try? PartFile.open(directory + name.part, permissions: plan.permissions), !left.wasThere else {
            return
        }
        SidecarFile<ResumeRecord>(path: directory + name.record).remove()
        left.remove()
        left.close()
    }

    /// Decides how much of the part can be resumed.
    private func lookAtPart() throws(RequestError) {
        guard let part else { return }
        // A record without bytes belongs to another part.
        guard part.wasThere else { return part.isNew ? resumeFile.removeLeftover() : resumeFile.remove() }
        guard let found = try resumeFile.read(), let first, found.belongs(to: first),
            found.needsDigest != true || plan.digest != nil
        else {
            return
        }
        notedBytes = found.notedBytes
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

    /// Truncates the part to the resumed bytes.
    ///
    /// After the call, the part's length is the number of received bytes.
    ///
    /// Called only after a response confirms the resumption. Until then other ranges of the part may be useful.
    func takeFound(_ byteCount: Int64) throws(RequestError) {
        guard !hasBegunBody, let part, let found = record else { return }
        hasBegunBody = true
        // The new record has no ranges, so it counts all bytes of the part. A part with several ranges is therefore
        // truncated before that record is written.
        if found.ranges == nil { try cutOff(behind: byteCount) } else { try part.truncate(to: byteCount) }
        guard found.boot != Boot.name || found.ranges != nil, var kept = record else { return }
        kept.syncedBytes = min(lastCheckpoint.byteCount, byteCount)
        (kept.boot, kept.ranges, kept.syncedRanges) = (Boot.name, nil, nil)
        record = kept
        try resumeFile.write(kept, synchronized: false)
    }

    /// Truncates a part without ranges.
    ///
    /// The record is written first, because a part that is shorter than its record's synchronised bytes cannot be
    /// resumed.
    func cutOff(behind count: Int64) throws(RequestError) {
        if var kept = record, kept.syncedBytes > count {
            kept.syncedBytes = count
            record = kept
            if isRecordSaved { try resumeFile.write(kept, synchronized: false) }
        }
        lastCheckpoint.byteCount = min(lastCheckpoint.byteCount, count)
        try part?.truncate(to: count)
    }
}
