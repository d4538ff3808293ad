// The bytes of a download: written, hashed, brought to the disk now and then.
import Foundation

extension Download {
    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool
    ) -> DownloadAnswer {
        // We have asked whether it has changed, not the caller.
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
            record = isContinuable ? makeRecord(head, of: request, totalBytes: total) : nil
            try checkSpace(total)
            if total ?? .max > Self.smallBytes { try saveRecord(synchronized: false) }
        case .body(let offset, let total):
            guard part.byteCount >= offset else {
                throw .file("is shorter than it was: it was changed meanwhile, try again", part.path, EIO)
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
        // A 416 tells the digest of its own body, and every other answer that of its bytes before they are decoded.
        if expected == nil, request.asksForIdentity || head.coding == nil, head.statusCode != 416 {
            expected = head.headerFields.representationDigest
        }
        // What was promised for the whole holds for what is put together of it.
        expected = expected ?? record?.promised.flatMap { FileDigest($0) }
    }

    private func makeRecord(
        _ head: ResponseHead, of request: PreparedRequest, totalBytes: Int64?
    ) -> ResumeRecord? {
        guard head.statusCode == 200,
            head.headerFields["Accept-Ranges"]?.lowercased() != "none", let validator = Validator(of: head, now: Date())
        else { return nil }
        // Few are looked at again: what the record is of is hashed when it is.
        source = request.url
        var record = ResumeRecord(key: "", validator: validator, totalBytes: totalBytes, boot: Boot.name)
        record.coding = head.coding
        record.promised = head.headerFields.representationDigest?.description
        // The answer that says that nothing is missing proposes no name.
        if case .directory = plan.target { record.name = plan.fileName(head, of: request) }
        return record
    }

    /// Has the record say what it is of.
    func completeRecord() {
        guard let source, let validator = record?.validator else { return }
        self.source = nil
        record?.key = key
        record?.source = validator.source(source)
    }

    func checkSpace(_ missing: Int64?) throws(RequestError) {
        guard let part, let missing, missing > Self.smallBytes, let free = part.freeBytes, free < missing else {
            return
        }
        throw RequestError(
            .diskFull,
            "\(missing) bytes are to be written to \(directory), and there is room for \(free); make room, or choose another directory",
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
        try checkIntact()
        if part.byteCount - lastCheckpoint.byteCount >= Self.checkpointBytes
            || part.byteCount - lastCheckpoint.byteCount >= Self.smallBytes
                && .now - lastCheckpoint.moment >= Self.checkpointInterval
        {
            try checkpoint()
        }
    }

    /// Throws away a part that another process has written to: nothing is known of its bytes any more.
    ///
    /// Each time before its length is relied on, which the next process does too.
    func checkIntact() throws(RequestError) {
        guard let part, !part.isIntact else { return }
        record = nil
        try? clear()
        throw RequestError(
            .destinationUnwritable,
            "the file \(part.path) was changed by another process while it was written; what was received has been thrown away, try again"
        )
    }

    /// From here on not even a system that stops loses what is there.
    func checkpoint() throws(RequestError) {
        guard record != nil else { return }
        try synchronize()
        guard let part else { return }
        record?.syncedBytes = part.byteCount
        lastCheckpoint = (part.byteCount, .now)
        try saveRecord(synchronized: true)
    }

    /// Has the bytes on the disk; what could not be brought there counts no more.
    ///
    /// A system that failed to write says so once: after that it takes what it has in memory for written.
    func synchronize() throws(RequestError) {
        do throws(RequestError) { try part?.synchronize() } catch {
            distrustUnsynced()
            throw error
        }
    }

    /// Counts only what had been brought to the disk before.
    func distrustUnsynced() {
        digest = nil
        if isSegmented {
            (segments.there, segments.segments) = (segments.syncedRanges, [])
            // It speaks of more.
            if isRecordSaved, part?.hasItsName == true { resumeFile?.remove() }
            isRecordSaved = false
            return
        }
        let synced = record?.syncedBytes ?? 0
        if synced == 0 { record = nil }
        try? part?.truncate(to: synced)
    }

    func saveRecord(synchronized: Bool) throws(RequestError) {
        completeRecord()
        guard var record, let resumeFile, let part else { return }
        // The record of another's part is the other's.
        try part.checkName()
        if isSegmented { (record.ranges, record.syncedRanges) = (segments.ranges, segments.syncedRanges) }
        try resumeFile.write(record, synchronized: synchronized)
        isRecordSaved = true
    }

    /// Throws away what is there.
    func clear() throws(RequestError) {
        // The record first: it must not be there with other bytes.
        if part?.wasThere == true || isRecordSaved, part?.hasItsName == true {
            resumeFile?.remove()
            // It must not come back when the system stops, beside bytes of another version.
            let problem = PartFile.synchronize(directory: directory)
            guard problem == 0 else { throw .file("could not be written", directory, problem) }
        }
        (record, isRecordSaved, digest, lastCheckpoint) = (nil, false, nil, (0, .now))
        segments = SegmentTable()
        try part?.truncate(to: 0)
    }

    /// Brings the digest towards where the part is; without effect when none is expected.
    ///
    /// What was there before is read again bit by bit, between the writes and at the end: a server would end a connection
    /// that waited for all of it.
    ///
    /// - Parameter limit: how many bytes it reads at most.
    func catchUp(by limit: Int64 = .max) throws(RequestError) {
        guard let part, let expected else { return }
        // Of bytes that are received again it knows nothing.
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
                throw .file("is shorter than it was", part.path, EIO)
            }
            digest.update(data)
        }
    }
}
