// The download of one operation: the part, its record, and its end.
import Foundation
import Synchronization

// Crash safety depends on the order of writes. A record is removed before its bytes. A part never has bytes of another
// version than its record. It is renamed to the target after everything was verified and synchronised.
final class Download: @unchecked Sendable {
    // @unchecked: only `executor` uses the mutable state, except `shared`, which has a lock, and the atomic flags.
    // `DiskSync` may end the download on another executor; until then, nothing runs on `executor`.

    struct Shared {
        /// The URL of a download that is cancelled and leaves no part.
        var discarded: URL?
        var progress = TransferProgress()
    }

    /// Fewer bytes than this do not justify a record, a checkpoint or a segment of their own.
    static let smallBytes: Int64 = 1 << 20
    static let catchUpBytes: Int64 = 4 << 20

    let plan: DownloadPlan
    let directory: String
    /// The file's name in `directory`; nil when the response decides the name.
    let fileName: String?
    let executor = DiskExecutor()
    let shared = Locked(Shared())
    private let hasStopped = Atomic(false)
    private let hasRecord = Atomic(false)
    private let asksForChange = Atomic(false)

    var part: PartFile?
    var resumeFile: SidecarFile<ResumeRecord> { SidecarFile(path: directory + "/" + PartName(stem).record) }
    var versionFile: SidecarFile<KeptVersion> { SidecarFile(path: directory + "/" + PartName(stem).version) }
    /// The version of the existing file, set before anything is sent; nil when the file is fetched unconditionally.
    var version: KeptVersion?
    /// The name from which the names of the part and its record are made.
    private var stem = ""
    var record: ResumeRecord? {
        didSet {
            if record == nil { origin = nil }
            hasRecord.store(record != nil, ordering: .releasing)
        }
    }
    private var isRecordSaved = false
    /// Of the part's first record; every later record of this download keeps it.
    private var notedBytes: Int64?
    private(set) var isContinuable = false
    private var isClosed = false
    private var hasBegunBody = false
    private var first: URL?
    /// Identifies the part: a hash of the first attempt's URL, regardless of redirects.
    private(set) lazy var key = first?.downloadKey ?? ""
    /// The response that a record would describe, and its request; nil when there is a record.
    private var origin: (head: ResponseHead, request: PreparedRequest)?
    var totalBytes: Int64?
    private var expected: FileDigest?
    var digest: RunningDigest?
    private var lastCheckpoint = ContinuousClock.now

    private let isSegmented: Bool
    var received = ReceivedRanges()
    private var ranges: [Range<Int64>] { isSegmented ? received.ranges : [0..<receivedBytes] }
    private var receivedBytes: Int64 { isSegmented ? received.byteCount : part?.byteCount ?? 0 }
    private var unsyncedBytes: Int64 { receivedBytes - received.synced.byteCount }

    init(_ plan: DownloadPlan, isSegmented: Bool = false) {
        self.plan = plan
        (directory, fileName) = (plan.directory.path, plan.fileName)
        self.isSegmented = isSegmented
    }

    var keepsPart: Bool { hasRecord.load(ordering: .acquiring) }
    func stop() { hasStopped.store(true, ordering: .releasing) }
    var isStopped: Bool { hasStopped.load(ordering: .acquiring) }
    var isDiscarded: Bool { shared.withLock { $0.discarded != nil } }

    /// Makes the end of the download remove its part, also that of an earlier download of this URL.
    func discardPart(of url: URL) { shared.withLock { $0.discarded = url } }

    func begin(
        _ request: PreparedRequest, asksForWhole: Bool, in segment: FileSegment? = nil,
        _ completion: @escaping Callback<DownloadBeginning>
    ) {
        // This code runs before the waiting writes of other downloads, so that the network has work meanwhile.
        executor.async(isFirst: true) {
            completion(
                Result { () throws(RequestError) in
                    if let segment { return try segment.begin(request) }
                    return try self.begin(request, asksForWhole: asksForWhole)
                })
        }
    }

    private func begin(_ request: PreparedRequest, asksForWhole: Bool) throws(RequestError) -> DownloadBeginning {
        guard !isStopped else { throw RequestError(.cancelled, "the download has ended") }
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
        self.asksForChange.store(asksForChange, ordering: .releasing)
        guard let part, isContinuable else { return .send(request, continuing: nil) }
        // The condition is sent with a range too, because the server evaluates it first (RFC 9110, section 13.2.2).
        if asksForChange { version?.add(to: &request.headerFields) }
        makeRecord()
        var usableBytes = hasBegunBody ? part.byteCount : received.there.leadingBytes
        // A range after the end results in a 416, which usually has no validator; the response with the last byte has
        // one.
        if usableBytes == record?.totalBytes { usableBytes -= 1 }
        // After a redirect, the URL may name another resource. With a digest, the bytes may come from any source.
        guard let record, !asksForWhole, usableBytes > 0, record.isOf(request.url) || plan.digest != nil else {
            return .send(request, continuing: nil)
        }
        let point = ResumePoint(
            byteCount: usableBytes, validator: record.validator, totalBytes: record.totalBytes, coding: record.coding)
        point.add(to: &request.headerFields)
        return .send(request, continuing: point)
    }

    private func existingFile() throws(RequestError) -> URL? {
        guard let fileName, plan.existing == .fail || plan.existing == .skip, plan.exists(fileName) else { return nil }
        sweep(fileName)
        guard plan.existing == .skip else { throw plan.existsAlready(fileName) }
        if let wanted = plan.digest {
            // A dangling link is not a file.
            guard stat(plan.url.path, followsLinks: true) != nil else { return nil }
            return try hasDigest(wanted, plan.url.path) ? plan.url : nil
        }
        try plan.checkFile(fileName)
        return plan.url
    }

    private func openPart(of url: URL, permissions: mode_t) throws(RequestError) {
        // After a redirect a released part is opened again. The first URL still identifies the part.
        first = first ?? url
        let firstStem = fileName ?? String(key.prefix(32))
        for number in 0... {
            stem = number == 0 ? firstStem : FileName.numbered(firstStem, number)
            do throws(RequestError) {
                if plan.existing == .rename, fileName != nil, plan.exists(stem) {
                    sweep(stem)
                    throw .inUse(stem)
                }
                part = try PartFile.open(
                    directory + "/" + PartName(stem).part, permissions: permissions, isFilledInPlace: isSegmented)
                return try lookAtPart()
            } catch {
                // The next numbered name may be free.
                guard plan.existing == .rename, error.code == .destinationInUse else { throw error }
                guard number < 10_000 else { throw plan.existsAlready(stem) }
            }
        }
    }

    // After a download that was killed at its end: a record without a part, an empty part, and a part that is another
    // name of the file itself. Files of another download are not removed.
    private func sweep(_ fileName: String) {
        let (name, directory) = (PartName(fileName), self.directory + "/")
        if let part = stat(directory + name.part) {
            guard let file = stat(directory + fileName), part.st_size == 0 || part.isSameFile(as: file) else { return }
        } else if stat(directory + name.record) == nil {
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

    private func lookAtPart() throws(RequestError) {
        guard let part else { return }
        // A record without bytes belongs to another part.
        guard part.wasThere else { return resumeFile.remove() }
        guard let found = try resumeFile.read(), let first, found.belongs(to: first),
            found.needsDigest != true || plan.digest != nil
        else { return }
        notedBytes = found.notedBytes
        let there = found.usableRanges(ofPart: part.byteCount, boot: Boot.name)
        guard isSegmented || there.leadingBytes > 0 else { return }
        received.there = there
        received.synced = found.usableRanges(ofPart: part.byteCount, boot: nil)
        (record, isRecordSaved, lastCheckpoint) = (found, true, .now)
    }

    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, in segment: FileSegment?, asksForRange: Bool,
        isRefused: Bool
    ) -> DownloadAnswer {
        // A 304 is acceptable if Convoy added the condition, not the caller.
        let asksForChange = segment == nil && asksForChange.load(ordering: .acquiring)
        let isRefused = isRefused && !(head.statusCode == 304 && asksForChange)
        let answer = DownloadAnswer(head, continuing: point, asksForRange: asksForRange, isRefused: isRefused)
        return segment?.judge(answer, head) ?? answer
    }

    func beginBody(
        _ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest, in segment: FileSegment? = nil
    ) throws(RequestError) {
        if let segment { return try segment.beginBody(answer, head) }
        guard let part else { return }
        switch answer {
        case .body(0, let total):
            hasBegunBody = true
            try clear()
            totalBytes = total
            if fileName == nil, plan.existing == .fail {
                let name = plan.fileName(head, of: request)
                if plan.exists(name) { throw plan.existsAlready(name) }
            }
            origin = isContinuable ? (head, request) : nil
            // A small body needs no record yet, because its bytes are written together with its end. If the body is
            // incomplete, the record is made when the part is released.
            if total ?? .max > DownloadSink.smallBytes { makeRecord() }
            try checkSpace(total)
            if total ?? .max > Self.smallBytes { try saveRecord(synchronized: false) }
        case .body(let offset, let total):
            guard part.byteCount >= offset else {
                throw .file("became shorter: another process changed it; try again", part.path, EIO)
            }
            try cutOff(behind: offset)
            totalBytes = total
            record?.totalBytes = total
            try checkSpace(total.map { $0 - offset })
        case .isWhole(let byteCount):
            try cutOff(behind: byteCount)
            totalBytes = byteCount
        case .isUnchanged: return
        case .mismatch, .refused: break
        }
        expected = plan.digest
        // The digest of a response is about the bytes before content decoding, so it is used only if these are stored.
        // The digest of a 416 is about the body of the 416.
        if expected == nil, request.asksForIdentity || head.coding == nil, head.statusCode != 416 {
            expected = head.headerFields.representationDigest
        }
        // A digest that an earlier response promised applies to the assembled file.
        expected = expected ?? record?.promised.flatMap { FileDigest($0) }
    }

    // Only after a response confirms the resumption: until then other ranges of the part may be useful. The record is
    // written first, because a part that is shorter than its record's synchronised bytes cannot be resumed.
    private func cutOff(behind count: Int64) throws(RequestError) {
        let found = hasBegunBody ? nil : record
        hasBegunBody = true
        let isShortened = received.synced.leadingBytes > count
        received.synced = [0..<min(received.synced.leadingBytes, count)]
        if isShortened, isRecordSaved, record?.ranges == nil { try saveRecord(synchronized: false) }
        try part?.truncate(to: count)
        // The new record has no ranges and names this boot, so it counts all bytes of the part. The part is therefore
        // truncated before that record is written.
        guard let found, found.boot != Boot.name || found.ranges != nil else { return }
        record?.boot = Boot.name
        record?.ranges = nil
        record?.syncedRanges = nil
        try saveRecord(synchronized: false)
    }

    private func makeRecord() {
        guard record == nil, let (head, request) = origin, head.statusCode == 200,
            head.headerFields["Accept-Ranges"]?.lowercased() != "none", let validator = Validator(of: head, now: Date())
        else { return }
        var record = ResumeRecord(
            key: key, validator: validator, source: validator.source(request.url), totalBytes: totalBytes,
            boot: Boot.name, promised: head.headerFields.representationDigest?.description, coding: head.coding)
        // The name is recorded, because a 416 for a complete part proposes no name.
        if fileName == nil { record.name = plan.fileName(head, of: request) }
        (self.record, origin) = (record, nil)
    }

    private func checkSpace(_ missing: Int64?) throws(RequestError) {
        guard let missing, missing > Self.smallBytes, let free = part?.freeBytes, free < missing else { return }
        throw RequestError(
            .diskFull,
            "\(missing) bytes must be written to \(directory), but only \(free) are free; free some space, or choose another directory",
            underlying: POSIXError(.ENOSPC))
    }

    func write(_ data: Data, in segment: FileSegment? = nil) throws(RequestError) {
        guard let part else { return }
        guard let index = segment?.index else {
            try catchUp(by: Self.catchUpBytes)
            let isHashed = digest?.byteCount == part.byteCount
            try part.append(data)
            if isHashed { digest?.update(data) }
            return try checkWritten()
        }
        guard received.segments.indices.contains(index) else { return }
        guard received.segments[index].position + Int64(data.count) <= received.segments[index].range.upperBound else {
            throw RequestError(.badResponse, "the server sent more than the announced range")
        }
        defer { noteProgress() }
        try part.write(data, at: &received.segments[index].position)
        received.unsavedBytes += Int64(data.count)
        try checkWritten()
        // A killed process loses about that many bytes at most.
        if received.unsavedBytes >= 4 << 20 { try saveRecord(synchronized: false) }
    }

    private func checkWritten() throws(RequestError) {
        // A complete part is checked when it is renamed.
        if part?.byteCount != totalBytes { try checkIntact() }
        let unsyncedBytes = unsyncedBytes
        guard let part, record != nil, unsyncedBytes >= Self.smallBytes,
            unsyncedBytes >= 64 << 20 || .now - lastCheckpoint >= .seconds(10)
        else { return }
        try checkSynced(PartFile.synchronize(part.descriptor))
        (received.synced, lastCheckpoint) = (ranges, .now)
        try saveRecord(synchronized: true)
    }

    /// Discards a part whose length another process has changed, because its bytes are unknown.
    private func checkIntact() throws(RequestError) {
        guard let part, !part.isIntact else { return }
        record = nil
        try? clear()
        throw RequestError(
            .destinationUnwritable,
            "the file \(part.path) was changed by another process while it was written; the received bytes were deleted; try again"
        )
    }

    /// A system reports a write error only once, and then treats the bytes in memory as written, so bytes that were not
    /// synchronised before are no longer counted.
    private func checkSynced(_ problem: Int32) throws(RequestError) {
        guard problem != 0, let part else { return }
        digest = nil
        if isSegmented {
            (received.there, received.segments) = (received.synced, [])
            // The saved record counts more bytes than those that were synchronised.
            if isRecordSaved, part.hasItsName { resumeFile.remove() }
            isRecordSaved = false
        } else {
            if received.synced.leadingBytes == 0 { record = nil }
            try? part.truncate(to: received.synced.leadingBytes)
        }
        throw .file("could not be written", part.path, problem)
    }

    private func saveRecord(synchronized: Bool) throws(RequestError) {
        makeRecord()
        guard var record, let part else { return }
        // If another download has replaced the part, the record belongs to that download.
        try part.checkName()
        record.notedBytes = notedBytes
        if isSegmented {
            (record.ranges, record.syncedRanges, received.unsavedBytes) = (ranges, received.synced, 0)
        } else {
            record.syncedBytes = received.synced.leadingBytes
        }
        try resumeFile.write(record, synchronized: synchronized)
        isRecordSaved = true
    }

    private func clear() throws(RequestError) {
        // The record is removed first, because a record must not exist beside bytes of another version.
        if part?.wasThere == true || isRecordSaved, part?.hasItsName == true {
            resumeFile.remove()
            // Syncs the directory, so that a crash cannot bring back the old record beside bytes of another version.
            let problem = PartFile.synchronize(directory: directory)
            guard problem == 0 else { throw .file("could not be written", directory, problem) }
        }
        reset()
        try part?.truncate(to: 0)
    }

    private func reset() {
        (record, isRecordSaved, digest, expected) = (nil, false, nil, nil)
        (received, lastCheckpoint) = (ReceivedRanges(), .now)
    }

    /// At most 4 MiB before each write: if all were read at once, the server could close the connection, which waits
    /// for it.
    private func catchUp(by limit: Int64 = .max) throws(RequestError) {
        guard let part, let expected else { return }
        // A digest is discarded if it includes bytes that are received again.
        if digest?.algorithm != expected.algorithm || digest?.byteCount ?? 0 > part.byteCount { digest = nil }
        let digest = digest ?? RunningDigest(expected.algorithm)
        self.digest = digest
        let end = digest.byteCount + min(limit, part.byteCount - digest.byteCount)
        while digest.byteCount < end, !isStopped {
            let wanted = Int(min(Self.smallBytes, end - digest.byteCount))
            guard let data = PartFile.read(part.descriptor, wanted, at: digest.byteCount) else {
                throw .file("could not be read", part.path, errno)
            }
            if data.isEmpty {
                try checkIntact()
                throw .file("became shorter", part.path, EIO)
            }
            digest.update(data)
        }
    }

    /// False also when the download is stopped meanwhile.
    func hasDigest(_ wanted: FileDigest, _ path: String) throws(RequestError) -> Bool {
        let descriptor = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .file("could not be read", path, errno) }
        defer { Foundation.close(descriptor) }
        let digest = RunningDigest(wanted.algorithm)
        while !isStopped {
            guard let data = PartFile.read(descriptor, 1 << 20) else { throw .file("could not be read", path, errno) }
            if data.isEmpty { return try digest.finish(of: path) == wanted }
            digest.update(data)
        }
        return false
    }

    private func noteProgress() {
        let (count, total) = (receivedBytes, totalBytes)
        shared.withLock { ($0.progress.download.completedBytes, $0.progress.download.totalBytes) = (count, total) }
    }

    func verify(_ segment: FileSegment? = nil) throws(RequestError) {
        if let segment { return try segment.verify() }
        guard let part else { return }
        if isSegmented {
            guard let totalBytes, ranges == [0..<totalBytes] else {
                throw RequestError(.connectionLost, "some segments of the file are not complete")
            }
            try checkIntact()
            // Removes the extra byte, see ``beginSegments(_:count:hasMirrors:)``.
            try part.truncate(to: totalBytes)
        }
        let byteCount = part.byteCount
        if let totalBytes, byteCount != totalBytes {
            guard byteCount > totalBytes else {
                throw RequestError(.connectionLost, "the body ended after \(byteCount) of \(totalBytes) bytes")
            }
            throw try mismatch("the file has \(byteCount) bytes, but the server announced \(totalBytes)")
        }
        if let wanted = plan.byteCount, byteCount != wanted {
            throw try mismatch(
                "the received file has \(byteCount) bytes instead of \(wanted); these bytes were deleted")
        }
        guard let expected else { return }
        try catchUp()
        guard let digest, digest.byteCount == byteCount else {
            throw RequestError(.cancelled, "it was cancelled before its digest was known")
        }
        self.digest = nil
        let found = try digest.finish(of: part.path)
        guard found != expected else { return }
        throw try mismatch("the received file has the digest \(found) instead of \(expected); these bytes were deleted")
    }

    private func mismatch(_ message: String) throws(RequestError) -> RequestError {
        try clear()
        return RequestError(.integrityFailed, message)
    }

    func commit(_ head: ResponseHead, of request: PreparedRequest, _ completion: @escaping Callback<URL>) {
        guard let part else { return completion(.failure(.file("is closed", directory, EBADF))) }
        if head.statusCode == 304 {
            return completion(
                Result { () throws(RequestError) in
                    defer { letGo() }
                    return try unchangedFile(head, of: request)
                })
        }
        // Until the download has ended, nothing else uses its state, on whichever thread this code runs.
        let place: @Sendable (Int32) -> Result<URL, RequestError> = { problem in
            Result { () throws(RequestError) in
                try self.checkSynced(problem)
                return try self.place(head, of: request)
            }
        }
        // On a file system in memory, nothing waits for a disk. So this executor ends the download in one step.
        guard !part.isInMemory else { return completion(place(0)) }
        let file = DiskSync.File(
            descriptor: part.descriptor, directory: directory, place: place, completion: completion)
        // A part with at most 1 MiB of unsynchronised bytes is synchronised together with others, any other part alone.
        guard unsyncedBytes > Self.smallBytes else { return DiskSync.of(part.device).commit(file) }
        completion(DiskSync.place([file])[0])
    }

    private func place(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> URL {
        guard let part else { throw .file("is closed", directory, EBADF) }
        var (name, number) = (stem, 0)
        if fileName == nil {
            let proposed = head.headerFields.proposedFileName == nil ? record?.name : nil
            name = proposed ?? plan.fileName(head, of: request)
        }
        let base = fileName ?? name
        try checkIntact()
        try part.setFinalPermissions(plan.permissions, replacing: plan.replaces ? directory + "/" + name : nil)
        let version = try prepareVersion(head, named: name)
        if plan.replaces { try part.rename(to: directory + "/" + name) }
        // A link gives the file two names for a moment. If the process is killed then, the part's name stays, and with a
        // record, a later download would resume the part even after the file was changed.
        while !plan.replaces, try !part.renameIfFree(to: directory + "/" + name, beforeLinking: removeRecord) {
            if plan.existing == .skip {
                try plan.checkFile(name)
                part.remove()
                return finishCommit(name)
            }
            guard plan.existing == .rename else { throw plan.existsAlready(name) }
            number += 1
            name = FileName.numbered(base, number)
        }
        // A failure is ignored: without the version file, the next download only fetches the file again.
        if let version { try? versionFile.write(version, synchronized: false) }
        return finishCommit(name)
    }

    private func removeRecord() {
        if isRecordSaved { resumeFile.remove() }
        isRecordSaved = false
    }

    private func finishCommit(_ name: String) -> URL {
        removeRecord()
        part?.close()
        part = nil
        if name == fileName { return plan.url }
        return plan.directory.appending(path: name, directoryHint: .notDirectory)
    }

    /// After `completion`, on the serial executor, another download may use the part.
    func close(_ completion: @escaping @Sendable () -> Void) {
        stop()
        executor.async {
            self.letGo()
            completion()
        }
    }

    /// The next attempt opens the part again, as another process would.
    func release(_ completion: @escaping @Sendable () -> Void) {
        executor.async {
            if !self.isClosed {
                self.letGo()
                self.isClosed = false
            }
            completion()
        }
    }

    private func letGo() {
        guard !isClosed else { return }
        isClosed = true
        let discarded = shared.withLock { $0.discarded }
        if let discarded, part == nil { try? openPart(of: discarded, permissions: plan.permissions) }
        guard let part else { return }
        defer {
            part.close()
            (self.part, hasBegunBody, totalBytes) = (nil, false, nil)
            reset()
        }
        // An existing part that this download has not changed belongs to another download, unless its record says that
        // it belongs to this one.
        let isOther = !hasBegunBody && part.wasThere
        if isOther && (discarded == nil || record == nil) || !part.hasItsName { return }
        if discarded == nil {
            makeRecord()
            let isUseful = record != nil && receivedBytes > 0
            // If the record cannot be saved, for example on a full disk, the previous one is still valid.
            if isUseful, (try? saveRecord(synchronized: false)) != nil || isRecordSaved { return }
            removeRecord()
        } else {
            resumeFile.remove()
        }
        part.remove()
    }

    // The head is that of the request for the first byte. Nil when the server does not support ranges of one version,
    // or when the file is too small for segments.
    func beginSegments(_ head: ResponseHead, count: Int, hasMirrors: Bool) throws(RequestError) -> [FileSegment]? {
        guard let part, head.statusCode == 206,
            let content = head.contentRange, content.range?.lowerBound == 0, let total = content.totalBytes,
            total >= 2 * Self.smallBytes,
            // The part is one byte longer than the file, so its length must not overflow.
            total < .max,
            let validator = Validator(of: head, now: Date())
        else { return nil }
        if record?.validator != validator || record?.totalBytes != total || part.byteCount > total + 1
            || record?.coding != head.coding
            || plan.digest == nil && head.url.map({ record?.isOf($0) == true }) == false
        {
            try clear()
            record = ResumeRecord(
                key: key, validator: validator, totalBytes: total, boot: Boot.name, coding: head.coding)
        }
        if hasMirrors { record?.needsDigest = true }
        record?.source = head.url.map(validator.source)
        record?.boot = Boot.name
        (hasBegunBody, totalBytes) = (true, total)
        expected = plan.digest ?? head.headerFields.representationDigest
        try checkSpace(total - receivedBytes)
        received.divide(totalBytes: total, into: count, atLeast: Self.smallBytes)
        // The record is saved before the part is lengthened, because the length then no longer shows how much was
        // received. The part is one byte longer than the file, so that no segment reaches the end of the part. If
        // another process truncates the part, it stays shorter, and `checkIntact()` detects that.
        try saveRecord(synchronized: false)
        try part.truncate(to: total + 1)
        noteProgress()
        shared.withLock { $0.progress.resumedBytes = $0.progress.download.completedBytes }
        return received.segments.enumerated().map { FileSegment(download: self, index: $0, range: $1.range) }
    }
}

struct FileSegment: Sendable {
    let download: Download
    let index: Int
    let range: Range<Int64>
    /// False for a mirror, whose validators differ.
    var isOfVersion = true

    private var position: Int64? {
        download.received.segments.indices.contains(index) ? download.received.segments[index].position : nil
    }

    /// False also after the end of the download.
    var isIncomplete: Bool { position.map { $0 < range.upperBound } == true }

    fileprivate func begin(_ request: PreparedRequest) throws(RequestError) -> DownloadBeginning {
        guard let position else { throw RequestError(.cancelled, "the download has ended") }
        guard isIncomplete else { return .isThere(download.plan.directory) }
        var request = request
        request.askForIdentity()
        // No range is requested if the URL is not the validator's, for example after a redirect.
        let version = isOfVersion ? download.record : nil
        guard version?.isOf(request.url) != false else { return .send(request, continuing: nil) }
        let point = ResumePoint(
            byteCount: position, validator: version?.validator, totalBytes: download.totalBytes,
            coding: download.record?.coding)
        point.add(to: &request.headerFields, through: range.upperBound - 1)
        return .send(request, continuing: point)
    }

    fileprivate func judge(_ answer: DownloadAnswer, _ head: ResponseHead) -> DownloadAnswer {
        switch answer {
        case .refused, .mismatch: return answer
        case .isWhole, .isUnchanged: return .mismatch("the server's file ends before the segment")
        case .body(0, _) where head.statusCode != 206:
            return .mismatch("the server sent the complete file or another version instead of the requested segment")
        case .body(let offset, _):
            guard let end = head.contentRange?.range?.upperBound, end <= range.upperBound else {
                return .mismatch("the server sent more than the requested segment")
            }
            return .body(from: offset - range.lowerBound, totalBytes: range.count64)
        }
    }

    /// Moves the segment's position to the first byte of this body, even if an earlier body has passed it.
    fileprivate func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead) throws(RequestError) {
        guard case .body(let offset, _) = answer, let position, range.lowerBound + offset <= position else {
            throw RequestError(.badResponse, "the response begins after the bytes already received")
        }
        let end = head.contentRange?.range?.upperBound ?? range.upperBound
        download.received.segments[index].body = (start: position, end: end)
        download.received.segments[index].position = range.lowerBound + offset
    }

    // A server may send fewer bytes than were requested (RFC 9110, section 15.3.7); the rest is requested next. A body
    // that ends early must have 64 KiB, so that a server cannot cause a request for each byte.
    fileprivate func verify() throws(RequestError) {
        guard let position, isIncomplete else { return }
        let body = download.received.segments[index].body
        if let body, position == body.end, position - body.start >= 64 << 10 { return }
        throw RequestError(
            .connectionLost, "the segment ended after \(position - range.lowerBound) of \(range.count64) bytes")
    }
}

extension ResponseHead {
    var contentRange: ContentRange? { headerFields["Content-Range"].flatMap(ContentRange.init) }
}

struct ResumePoint: Hashable, Sendable {
    /// The number of existing bytes; one less for a complete file.
    let byteCount: Int64
    let validator: Validator?
    let totalBytes: Int64?
    let coding: String?

    /// - Parameter last: the position of the last byte to request; nil for all.
    func add(to headerFields: inout HeaderFields, through last: Int64? = nil) {
        headerFields["Range"] = "bytes=\(byteCount)-\(last.map(String.init) ?? "")"
        headerFields["If-Range"] = validator?.fieldValue
    }
}

enum DownloadAnswer: Hashable, Sendable {
    case body(from: Int64, totalBytes: Int64?)
    case isWhole(byteCount: Int64)
    case isUnchanged
    /// The response does not continue the existing bytes, which stay stored.
    case mismatch(String)
    case refused

    var isMismatch: Bool { if case .mismatch = self { true } else { false } }

    /// - Parameters:
    ///   - point: nil for a request for the complete file.
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
            self = .mismatch("the server answered \(head.statusCode), which has no content to save")
        case (206, nil) where !asksForRange && !isRefused:
            self = .mismatch("the server sent a range (206) although the complete file was requested")
        case (let status, .some) where isRefused && Self.refusesRange(status):
            self = .mismatch("the server refused the range")
        default:
            self = isRefused ? .refused : .body(from: 0, totalBytes: head.statusCode == 200 ? head.expectedBytes : nil)
        }
    }

    // Other statuses concern a proxy, a limit of requests, or a server that is not available now. A redirect or a 401
    // that can be followed has led to another attempt before.
    static func refusesRange(_ statusCode: Int) -> Bool {
        switch statusCode {
        case 407, 408, 425, 429: false
        case 204, 205, 300..<500, 501, 505: true
        default: false
        }
    }

    private static func isRange(_ head: ResponseHead) -> Bool {
        guard let content = head.contentRange, let range = content.range else { return false }
        return range != 0..<(content.totalBytes ?? range.upperBound)
    }

    private static func partial(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        // A 206 to `If-Range` may omit the coding (RFC 9110, section 15.3.7).
        if let coding = head.coding, coding != point.coding {
            return .mismatch("the server sent the range in another content coding")
        }
        let fields = head.headerFields.values(of: "Content-Range")
        guard let field = fields.first, fields.count == 1 else {
            return .mismatch("the server sent a range (206) without a Content-Range")
        }
        guard let content = ContentRange(field), let range = content.range else {
            return .mismatch("the server sent an invalid range (206): \(field.debugDescription)")
        }
        guard range.lowerBound == point.byteCount else {
            return .mismatch(
                "the server sent the bytes from \(range.lowerBound) on instead of those from \(point.byteCount)")
        }
        if let total = content.totalBytes, let expected = point.totalBytes, total != expected {
            return .mismatch("the server sent a range of a file of \(total) bytes, but the file had \(expected)")
        }
        if let expected = head.expectedBytes, expected != range.count64 {
            return .mismatch("the server announced \(expected) bytes for a range of \(range.count64)")
        }
        guard point.validator?.matches(head) != false else {
            return .mismatch("the server sent a range of another or an unnamed version")
        }
        // A range may be shorter than requested (RFC 9110, section 15.3.7). So without a length the end of the file is
        // unknown.
        guard let total = content.totalBytes ?? point.totalBytes else {
            return .mismatch("the server sent a range of a file of unknown length")
        }
        return .body(from: point.byteCount, totalBytes: total)
    }

    private static func unsatisfied(_ head: ResponseHead, continuing point: ResumePoint) -> DownloadAnswer {
        guard let content = head.contentRange, content.range == nil, content.totalBytes == point.byteCount,
            point.totalBytes ?? point.byteCount == point.byteCount, point.validator?.matches(head) != false
        else {
            return .mismatch("the server has no bytes after the \(point.byteCount) bytes of the part")
        }
        return .isWhole(byteCount: point.byteCount)
    }
}

struct UnexpectedRange: Error {}

extension RequestError {
    /// Whether a request for the complete file may succeed where the request for a range failed.
    var isOfRange: Bool {
        underlying is UnexpectedRange
            || code == .unacceptableStatus && response.map { DownloadAnswer.refusesRange($0.statusCode) } == true
    }
}
