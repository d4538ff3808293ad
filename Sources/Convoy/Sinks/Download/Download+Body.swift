// The bytes of a download: writing, hashing and occasional synchronising.
import Foundation

extension Download {
    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool
    ) -> DownloadAnswer {
        // A 304 is acceptable if Convoy added the condition, not the caller.
        let isRefused = isRefused && !(head.statusCode == 304 && asksForChange)
        return DownloadAnswer(head, continuing: point, asksForRange: asksForRange, isRefused: isRefused)
    }

    func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest) throws(RequestError) {
        guard let part else { return }
        isUnchanged = answer == .isUnchanged
        if isUnchanged { return }
        switch answer {
        case .body(0, let total):
            hasBegunBody = true
            try clear()
            totalBytes = total
            if case .directory = plan.target, plan.existing == .fail {
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
            try takeFound(offset)
            try cutOff(behind: offset)
            totalBytes = total
            record?.totalBytes = total
            try checkSpace(total.map { $0 - offset })
        case .isWhole(let byteCount):
            try takeFound(byteCount)
            totalBytes = byteCount
        case .isUnchanged, .mismatch, .refused: break
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

    /// Makes the record of a new part, without hashes; none if the response allows no resumption.
    func makeRecord() {
        guard record == nil, let (head, request) = origin, head.statusCode == 200,
            head.headerFields["Accept-Ranges"]?.lowercased() != "none", let validator = Validator(of: head, now: Date())
        else { return }
        var record = ResumeRecord(key: "", validator: validator, totalBytes: totalBytes, boot: Boot.name)
        record.coding = head.coding
        record.promised = head.headerFields.representationDigest?.description
        // The name is recorded, because a 416 for a complete part proposes no name.
        if case .directory = plan.target { record.name = plan.fileName(head, of: request) }
        self.record = record
    }

    /// Adds the hashes that identify the download and the source of its validator to the record.
    ///
    /// Few parts are resumed, so URLs are hashed only when the record is read or saved.
    func completeRecord() {
        makeRecord()
        guard let origin, let validator = record?.validator else { return }
        self.origin = nil
        record?.key = key
        record?.source = validator.source(origin.request.url)
    }

    func checkSpace(_ missing: Int64?) throws(RequestError) {
        guard let part, let missing, missing > Self.smallBytes, let free = part.freeBytes, free < missing else {
            return
        }
        throw RequestError(
            .diskFull,
            "\(missing) bytes must be written to \(directory), but only \(free) are free; free some space, or choose another directory",
            underlying: POSIXError(.ENOSPC))
    }

    func write(_ data: Data) throws(RequestError) {
        guard let part else { return }
        try catchUp(by: Self.catchUpBytes)
        let isHashed = digest?.byteCount == part.byteCount
        let before = part.byteCount
        defer {
            let count = Int(part.byteCount - before)
            if isHashed, count > 0 { digest?.update(data.prefix(count)) }
        }
        try part.append(data)
        try checkWritten()
    }

    /// Copies bytes of a file inside the kernel, or reads and writes them if the kernel cannot copy them.
    ///
    /// If a digest is expected, bytes that the kernel copied are read at the end. A cancellation takes effect between
    /// two pieces.
    func write(_ source: FileBytes) throws(RequestError) {
        guard let part else { return }
        var offset = source.range.lowerBound
        while offset < source.range.upperBound, !isStopped {
            let copied = try part.append(source, from: offset)
            if copied == 0 { return try writePieces(of: source, from: offset) }
            offset += copied
            try checkWritten()
        }
    }

    /// Checks the part after a write, and synchronises it when a checkpoint is due.
    private func checkWritten() throws(RequestError) {
        guard let part else { return }
        // A complete part is checked when it is renamed.
        if part.byteCount != totalBytes { try checkIntact() }
        if part.byteCount - lastCheckpoint.byteCount >= Self.checkpointBytes
            || part.byteCount - lastCheckpoint.byteCount >= Self.smallBytes
                && .now - lastCheckpoint.moment >= Self.checkpointInterval
        {
            try checkpoint()
        }
    }

    /// Discards a part whose length another process has changed, because its bytes are unknown.
    ///
    /// Called after writes and before the part is renamed.
    func checkIntact() throws(RequestError) {
        guard let part, !part.isIntact else { return }
        record = nil
        try? clear()
        throw RequestError(
            .destinationUnwritable,
            "the file \(part.path) was changed by another process while it was written; the received bytes were deleted; try again"
        )
    }

    /// Synchronises the bytes and the record, so that both survive a system crash.
    func checkpoint() throws(RequestError) {
        guard record != nil else { return }
        try synchronize()
        guard let part else { return }
        record?.syncedBytes = part.byteCount
        lastCheckpoint = (part.byteCount, .now)
        try saveRecord(synchronized: true)
    }

    /// Synchronises the bytes.
    ///
    /// After an error, bytes that were not synchronised before are no longer counted.
    ///
    /// A system reports a write error only once. Afterwards the system treats the bytes in memory as written.
    func synchronize() throws(RequestError) {
        do throws(RequestError) { try part?.synchronize() } catch {
            distrustUnsynced()
            throw error
        }
    }

    /// Counts only the bytes that were synchronised before.
    func distrustUnsynced() {
        digest = nil
        if isSegmented {
            (segments.there, segments.segments) = (segments.syncedRanges, [])
            // The saved record counts more bytes than those that were synchronised.
            if isRecordSaved, part?.hasItsName == true { resumeFile.remove() }
            isRecordSaved = false
            return
        }
        let synced = record?.syncedBytes ?? 0
        if synced == 0 { record = nil }
        try? part?.truncate(to: synced)
    }

    func saveRecord(synchronized: Bool) throws(RequestError) {
        completeRecord()
        guard var record, let part else { return }
        // If another download has replaced the part, the record belongs to that download.
        try part.checkName()
        record.notedBytes = notedBytes
        if isSegmented { (record.ranges, record.syncedRanges) = (segments.ranges, segments.syncedRanges) }
        try resumeFile.write(record, synchronized: synchronized)
        isRecordSaved = true
    }

    /// Removes the record, the part and the digest.
    func clear() throws(RequestError) {
        // The record is removed first, because a record must not exist beside bytes of another version.
        if part?.wasThere == true || isRecordSaved, part?.hasItsName == true {
            resumeFile.remove()
            // Syncs the directory, so that a crash cannot bring back the old record beside bytes of another version.
            let problem = PartFile.synchronize(directory: directory)
            guard problem == 0 else { throw .file("could not be written", directory, problem) }
        }
        (record, isRecordSaved, digest, lastCheckpoint) = (nil, false, nil, (0, .now))
        segments = SegmentTable()
        try part?.truncate(to: 0)
    }

    /// Hashes bytes of the part that the digest has not seen.
    ///
    /// The method does nothing when no digest is expected.
    ///
    /// At most 4 MiB of existing bytes are read before each write, and the rest at the end. If all were read at once,
    /// the server could close the connection, which waits for the read.
    ///
    /// - Parameter limit: the maximum number of bytes to read.
    func catchUp(by limit: Int64 = .max) throws(RequestError) {
        guard let part, let expected else { return }
        // A digest is discarded if it includes bytes that are received again.
        if digest?.algorithm != expected.algorithm || digest?.byteCount ?? 0 > part.byteCount { digest = nil }
        let digest = digest ?? RunningDigest(expected.algorithm)
        self.digest = digest
        let end = digest.byteCount + min(limit, part.byteCount - digest.byteCount)
        guard digest.byteCount < end else { return }
        while digest.byteCount < end, !isStopped {
            let wanted = Int(min(Self.smallBytes, end - digest.byteCount))
            let data = try part.read(wanted, at: digest.byteCount)
            if data.isEmpty {
                try checkIntact()
                throw .file("became shorter", part.path, EIO)
            }
            digest.update(data)
        }
    }
}
