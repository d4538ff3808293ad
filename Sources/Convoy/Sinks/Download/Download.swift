// One operation's download: the part, what is known of it, and what becomes of it.
import Foundation

/// Keeps a part and its record over all attempts of an operation.
///
/// The order of what is written is the promise: the record of other bytes goes before they do, a part is never longer
/// than what its record speaks of, and the target gets its name when everything has been checked and synchronised.
final class Download: DownloadTarget, @unchecked Sendable {
    // @unchecked: everything that changes is touched on `lane` only, but for `flags`, which have a lock; while a file is
    // given its name, which `DiskSync` may do, nothing else happens on `lane`.

    private struct Flags {
        var isStopped = false
        var keepsPart = false
        /// The file has its name: there is nothing to let go of.
        var isPlaced = false
        /// Whether the last request asked whether the file has changed.
        var asksForChange = false
    }

    /// Losing less than this is not worth a file beside the file.
    static let smallBytes: Int64 = 1 << 20
    /// How much is written between two points at which everything is on the disk.
    static let checkpointBytes: Int64 = 64 << 20
    static let checkpointInterval = Duration.seconds(10)
    /// How much of what was there is read for a digest between two writes.
    static let catchUpBytes: Int64 = 4 << 20

    let plan: DownloadPlan
    /// The path of the directory that the file is for.
    let directory: String
    /// The name in it; nil where the answer gives one.
    let fileName: String?
    let lane = DiskLane()
    private let flags = Locked(Flags())
    var keepsPart: Bool { flags.withLock { $0.keepsPart } }

    var part: PartFile?
    var resumeFile: SidecarFile<ResumeRecord>?
    var versionFile: SidecarFile<KeptVersion>?
    /// Which version the file is that is there; nil where the whole is wanted, whatever is there.
    ///
    /// Known before anything is sent, and never changed after.
    var version: KeptVersion?
    /// Whether the answer says that the file that is there is the one.
    var isUnchanged = false
    /// The target's name; the one that was free, where existing files stay.
    var stem = ""
    /// Its number, where the first names were taken.
    var stemNumber = 0
    /// What the bytes of the part are of; nil when they cannot be continued.
    var record: ResumeRecord? {
        didSet {
            if record == nil { source = nil }
            if (record == nil) != (oldValue == nil) { flags.withLock { $0.keepsPart = record != nil } }
        }
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
    /// The request of the first attempt.
    private var first: PreparedRequest?
    /// What the part is recognised by: where the first attempt went, whatever redirects say.
    private(set) lazy var key = first?.downloadKey ?? ""
    /// Where the version of the record comes from, while the record does not say it yet.
    var source: URL?
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
        (directory, fileName) = plan.place
        self.isSegmented = isSegmented
    }

    /// Notes that the part has become the file.
    func notePlaced() { flags.withLock { $0.isPlaced = true } }
    var isPlaced: Bool { flags.withLock { $0.isPlaced } }

    var asksForChange: Bool { flags.withLock { $0.asksForChange } }
    func stop() { flags.withLock { $0.isStopped = true } }
    var isStopped: Bool { flags.withLock { $0.isStopped } }

    // MARK: Before an attempt

    /// Opens the part, the first time.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void
    ) {
        lane.async {
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
            if let fileName { try plan.checkWritable(fileName, in: directory) }
            if let file = try existingFile() { return .isThere(file) }
            try openPart(request)
            version = try request.canBeContinued ? findVersion() : nil
        }
        isContinuable = request.canBeContinued
        var request = request
        if request.keepsCoding { request.headerFields["Accept-Encoding"] = "identity" }
        let asksForChange = isContinuable && version?.isOf(request.url) == true
        flags.withLock { $0.asksForChange = asksForChange }
        guard let part, isContinuable else { return .send(request, continuing: nil) }
        // Beside a range too: whether the file has changed is answered first (RFC 9110, section 13.2.2).
        if asksForChange { version?.add(to: &request.headerFields) }
        completeRecord()
        let usable = hasBegunBody ? part.byteCount : foundBytes
        // A resource that redirects is another one than the file; with a digest it may come from anywhere.
        guard let record, !asksForWhole, record.isOf(request.url) || plan.digest != nil else {
            return .send(request, continuing: nil)
        }
        let point = ResumePoint(of: record, usableBytes: usable)
        guard point.byteCount > 0 else { return .send(request, continuing: nil) }
        point.add(to: &request.headerFields)
        return .send(request, continuing: point)
    }

    /// The file that makes the download unnecessary.
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
        // A link to nowhere is no file.
        var status = stat()
        guard stat(file.path, &status) == 0 else { return nil }
        return try FileDigest.ofFile(file.path, wanted.algorithm, while: { !isStopped }) == wanted
            ? file : nil
    }

    /// The name that the part is made from: the file's, or one that stands for the URL.
    var partStem: String { fileName ?? String(key.prefix(32)) }

    private func openPart(_ request: PreparedRequest) throws(RequestError) {
        // After a redirect it is opened again where it had to be let go of.
        first = first ?? request
        let firstStem = partStem
        var number = 0
        while true {
            (stem, stemNumber) = (
                number == 0 ? firstStem : FileName.numbered(firstStem, number), number
            )
            let (name, directory) = (PartName(stem), self.directory + "/")
            do throws(RequestError) {
                if plan.existing == .rename, case .file = plan.target, plan.exists(stem) {
                    sweep(stem)
                    throw .inUse(stem)
                }
                part = try PartFile.open(
                    directory + name.part, permissions: plan.permissions, isFilledInPlace: isSegmented)
            } catch {
                // The next name may be free.
                guard plan.existing == .rename, error.code == .destinationInUse else { throw error }
                guard number < 10_000 else { throw plan.existsAlready(stem) }
                number += 1
                continue
            }
            resumeFile = SidecarFile(path: directory + name.record)
            versionFile = SidecarFile(path: directory + name.version)
            return try lookAtPart(request)
        }
    }

    /// Takes away what a download that was killed at its end has left beside the file, which is complete.
    ///
    /// That is a record without a part, an empty part, and a part that is the file itself under its other name: to write
    /// to the file would change the part. What is kept of another download stays.
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
        // An open part is locked by its process, and a second name of it is removed.
        guard let left = try? PartFile.open(directory + name.part, permissions: plan.permissions), !left.wasThere else {
            return
        }
        SidecarFile<ResumeRecord>(path: directory + name.record).remove()
        left.remove()
        left.close()
    }

    /// Decides what of the part can be continued.
    private func lookAtPart(_ request: PreparedRequest) throws(RequestError) {
        guard let part, let resumeFile else { return }
        // A record without bytes is of others.
        guard part.wasThere else { return part.isNew ? resumeFile.removeLeftover() : resumeFile.remove() }
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
        guard !hasBegunBody, let part, let found = record else { return }
        hasBegunBody = true
        // Until it is cut off, the length of a part with several ranges says nothing.
        if found.ranges == nil { try cutOff(behind: byteCount) } else { try part.truncate(to: byteCount) }
        guard found.boot != Boot.name || found.ranges != nil, var kept = record else { return }
        kept.syncedBytes = min(lastCheckpoint.byteCount, byteCount)
        (kept.boot, kept.ranges, kept.syncedRanges) = (Boot.name, nil, nil)
        record = kept
        try resumeFile?.write(kept, synchronized: false)
    }

    /// Makes a part shorter that grows from its start.
    ///
    /// A part that is shorter than what its record says is on the disk is not continued: the record comes first.
    func cutOff(behind count: Int64) throws(RequestError) {
        if var kept = record, kept.syncedBytes > count {
            kept.syncedBytes = count
            record = kept
            if isRecordSaved { try resumeFile?.write(kept, synchronized: false) }
        }
        lastCheckpoint.byteCount = min(lastCheckpoint.byteCount, count)
        try part?.truncate(to: count)
    }
}
