// One operation's download: the part, what is known of it, and what becomes of it.
import Foundation

/// Keeps a part and its record over all attempts of an operation.
///
/// The order of what is written is the promise: the record of other bytes goes before they do, a part is never longer
/// than what its record speaks of, and the target gets its name when everything has been checked and synchronised.
final class Download: @unchecked Sendable {
    // @unchecked: everything that changes is touched on `queue` only, but for `isStopped`, which has a lock.

    enum Beginning: Sendable {
        case send(PreparedRequest, continuing: ResumePoint?)
        /// There is nothing to send.
        case isThere(URL)
    }

    /// Losing less than this is not worth a file beside the file.
    static let smallBytes: Int64 = 1 << 20
    /// How much is written between two points at which everything is on the disk.
    private static let checkpointBytes: Int64 = 64 << 20
    private static let checkpointInterval = Duration.seconds(10)

    let plan: DownloadPlan
    /// Where the disk is used; it may block there.
    let queue = DispatchQueue(label: "convoy.download")
    private let isStopped = Locked(false)

    private var part: PartFile?
    private var resumeFile: ResumeFile?
    /// The target's name; the one that was free, where existing files stay.
    private var stem = ""
    /// What the bytes of the part are of; nil when they cannot be continued.
    private var record: ResumeRecord?
    private var isRecordSaved = false
    /// Whether the request leaves ranges and codings to us.
    private var isContinuable = false
    /// Whether anything has been done to what was found.
    private var hasBegunBody = false
    private var totalBytes: Int64?
    private var expected: FileDigest?
    private var digest: RunningDigest?
    private var lastCheckpoint: (byteCount: Int64, moment: ContinuousClock.Instant) = (0, .now)

    init(_ plan: DownloadPlan) { self.plan = plan }

    // MARK: Before an attempt

    /// Opens the part, the first time, and says what is to be sent.
    ///
    /// - Parameter asksForWhole: whether what is there is not to be continued.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<Beginning, RequestError>) -> Void
    ) {
        isStopped.withLock { $0 = false }
        queue.async {
            let result: Result<Beginning, RequestError>
            do throws(RequestError) {
                result = .success(try self.begin(request, asksForWhole: asksForWhole))
            } catch {
                result = .failure(error)
            }
            completion(result)
        }
    }

    private func begin(_ request: PreparedRequest, asksForWhole: Bool) throws(RequestError) -> Beginning {
        if part == nil {
            try plan.checkWritable()
            if let file = try existingFile() { return .isThere(file) }
            try openPart(request)
        }
        isContinuable = request.canBeContinued
        guard let part, isContinuable else { return .send(request, continuing: nil) }
        var request = request
        request.headerFields["Accept-Encoding"] = "identity"
        guard let record, part.byteCount > 0, !asksForWhole else { return .send(request, continuing: nil) }
        let point = ResumePoint(
            byteCount: part.byteCount, validator: record.validator, totalBytes: record.totalBytes)
        point.add(to: &request.headerFields)
        return .send(request, continuing: point)
    }

    /// The file that makes the download unnecessary.
    private func existingFile() throws(RequestError) -> URL? {
        guard case .file(let file) = plan.target, plan.existing == .fail || plan.existing == .skip,
            plan.exists(file.lastPathComponent)
        else { return nil }
        guard plan.existing == .skip else { throw plan.existsAlready(file.lastPathComponent) }
        guard let wanted = plan.digest else { return file }
        return try FileDigest.ofFile(file.path, wanted.algorithm, while: { !isStopped.withLock { $0 } }) == wanted
            ? file : nil
    }

    private func openPart(_ request: PreparedRequest) throws(RequestError) {
        let first = plan.partStem(request)
        var number = 0
        while true {
            stem = number == 0 ? first : FileName.numbered(first, number)
            let path = plan.directory.path + "/" + Self.hiddenName(stem)
            do throws(RequestError) {
                if plan.existing == .rename, case .file = plan.target, plan.exists(stem) { throw .inUse(stem) }
                part = try PartFile.open(path + ".convoy-part", permissions: plan.permissions)
            } catch {
                // The next name may be free.
                guard plan.existing == .rename, error.code == .destinationInUse, number < 10_000 else { throw error }
                number += 1
                continue
            }
            resumeFile = ResumeFile(path: path + ".convoy-resume")
            return try lookAtPart(request)
        }
    }

    /// A name that shows whose part it is, and that is not too long with what comes behind it.
    private static func hiddenName(_ stem: String) -> String {
        guard stem.utf8.count > 200 else { return "." + stem }
        return "." + String(decoding: stem.utf8.prefix(160), as: UTF8.self) + "~"
            + SHA256.digest(of: Data(stem.utf8)).hexadecimal.prefix(16)
    }

    /// Decides what of the part can be continued.
    private func lookAtPart(_ request: PreparedRequest) throws(RequestError) {
        guard let part, let resumeFile else { return }
        // A record without bytes is of others.
        guard part.wasThere else { return resumeFile.remove() }
        guard var found = resumeFile.read(), found.key == request.downloadKey,
            let usable = found.usableBytes(ofPart: part.byteCount, boot: Boot.name)
        else { return }
        hasBegunBody = true
        try part.truncate(to: usable)
        if found.boot != Boot.name {
            // Before anything is appended: from now on the length of the part counts.
            (found.boot, found.syncedBytes) = (Boot.name, usable)
            try resumeFile.write(found, synchronized: false)
        }
        (record, isRecordSaved) = (found, true)
        lastCheckpoint = (usable, .now)
    }

    // MARK: A body

    /// Prepares for the bytes of a body.
    ///
    /// - Thread: the queue.
    func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest) throws(RequestError) {
        guard let part else { return }
        hasBegunBody = true
        switch answer {
        case .body(0, let total):
            try clear()
            totalBytes = total
            if case .directory = plan.target, plan.existing == .fail {
                let name = plan.fileName(head, of: request)
                if plan.exists(name) { throw plan.existsAlready(name) }
            }
            record = isContinuable ? Self.makeRecord(head, of: request, totalBytes: total) : nil
            try checkSpace(total)
            if total ?? .max > Self.smallBytes { try saveRecord(synchronized: false) }
        case .body(let offset, let total):
            guard part.byteCount >= offset else {
                throw .file("is shorter than it was: it was changed meanwhile, try again", part.path, EIO)
            }
            try part.truncate(to: offset)
            totalBytes = total
            record?.totalBytes = total
            try checkSpace(total.map { $0 - offset })
        case .isWhole: totalBytes = part.byteCount
        case .lie, .refused: break
        }
        expected = plan.digest ?? (head.isEncoded ? nil : head.headerFields.representationDigest)
        try catchUp()
    }

    private static func makeRecord(
        _ head: ResponseHead, of request: PreparedRequest, totalBytes: Int64?
    ) -> ResumeRecord? {
        guard head.statusCode == 200, !head.isEncoded,
            head.headerFields["Accept-Ranges"]?.lowercased() != "none", let validator = Validator(of: head, now: Date())
        else { return nil }
        return ResumeRecord(
            key: request.downloadKey, validator: validator, totalBytes: totalBytes, boot: Boot.name)
    }

    private func checkSpace(_ missing: Int64?) throws(RequestError) {
        guard let part, let missing, missing > Self.smallBytes, let free = part.freeBytes, free < missing else {
            return
        }
        throw RequestError(
            .diskFull,
            "\(missing) bytes are to be written to \(plan.directory.path), and there is room for \(free); make room, or choose another directory",
            underlying: POSIXError(.ENOSPC))
    }

    /// - Thread: the queue.
    func write(_ data: Data) throws(RequestError) {
        guard let part else { return }
        let isHashed = digest?.byteCount == part.byteCount
        let before = part.byteCount
        defer {
            let count = Int(part.byteCount - before)
            if isHashed, count > 0 {
                data.withUnsafeBytes { digest?.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            }
        }
        let problem: RequestError? = data.withUnsafeBytes { bytes in
            do throws(RequestError) { try part.append(bytes) } catch { return error }
            return nil
        }
        if let problem { throw problem }
        if part.byteCount - lastCheckpoint.byteCount >= Self.checkpointBytes
            || part.byteCount - lastCheckpoint.byteCount >= Self.smallBytes
                && .now - lastCheckpoint.moment >= Self.checkpointInterval
        {
            try checkpoint()
        }
    }

    /// From here on not even a system that stops loses what is there.
    private func checkpoint() throws(RequestError) {
        guard let part, record != nil else { return }
        try part.synchronize()
        record?.syncedBytes = part.byteCount
        lastCheckpoint = (part.byteCount, .now)
        try saveRecord(synchronized: true)
    }

    private func saveRecord(synchronized: Bool) throws(RequestError) {
        guard var record, let resumeFile else { return }
        record.digest = digest.map { ResumeRecord.SavedDigest(algorithm: $0.algorithm, state: $0.savedState) }
        try resumeFile.write(record, synchronized: synchronized)
        isRecordSaved = true
    }

    /// Throws away what is there.
    private func clear() throws(RequestError) {
        // The record first: it must not be there with other bytes.
        if part?.wasThere == true || isRecordSaved { resumeFile?.remove() }
        (record, isRecordSaved, digest, lastCheckpoint) = (nil, false, nil, (0, .now))
        try part?.truncate(to: 0)
    }

    /// Brings the digest to where the part is; without effect when none is expected.
    private func catchUp() throws(RequestError) {
        guard let part, let expected else { return }
        if digest?.algorithm != expected.algorithm {
            let saved = record?.digest.flatMap { saved in
                saved.algorithm == expected.algorithm ? RunningDigest(saved.algorithm, savedState: saved.state) : nil
            }
            digest = saved.flatMap { $0.byteCount <= part.byteCount ? $0 : nil } ?? RunningDigest(expected.algorithm)
        }
        guard var progress = digest, progress.byteCount < part.byteCount else { return }
        defer { digest = progress }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while progress.byteCount < part.byteCount, !isStopped.withLock({ $0 }) {
            let offset = progress.byteCount
            var count = 0
            var problem: RequestError?
            buffer.withUnsafeMutableBytes { bytes in
                do throws(RequestError) {
                    count = try part.read(into: bytes, at: offset)
                } catch {
                    problem = error
                }
                progress.update(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            }
            if let problem { throw problem }
            if count == 0 { throw .file("is shorter than it was", part.path, EIO) }
        }
    }

    // MARK: The end

    /// Checks that what is there is the file.
    ///
    /// - Thread: the queue.
    func verify() throws(RequestError) {
        guard let part else { return }
        if let totalBytes, part.byteCount != totalBytes {
            guard part.byteCount < totalBytes else {
                let byteCount = part.byteCount
                try clear()
                throw RequestError(
                    .integrityFailed, "the file has \(byteCount) bytes, and the server announced \(totalBytes)")
            }
            throw RequestError(
                .connectionLost, "the body ended after \(part.byteCount) of \(totalBytes) bytes")
        }
        guard let expected else { return }
        try catchUp()
        guard let digest, digest.byteCount == part.byteCount else { return }
        let found = digest.finish()
        guard found != expected else { return }
        try clear()
        throw RequestError(
            .integrityFailed,
            "what was received has the digest \(found), and \(expected) was expected; it has been thrown away")
    }

    /// Puts the file in its place; told on any thread.
    ///
    /// - Thread: the queue.
    func commit(
        _ head: ResponseHead, of request: PreparedRequest,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void
    ) {
        guard let part else { return completion(.failure(.file("is closed", plan.directory.path, EBADF))) }
        let place: @Sendable () -> Result<URL, RequestError> = {
            do throws(RequestError) { return .success(try self.place(head, of: request)) } catch {
                return .failure(error)
            }
        }
        // A large one goes to the disk by itself, a small one with others.
        guard part.byteCount - lastCheckpoint.byteCount > Self.smallBytes else {
            return part.commit(place, completion)
        }
        do throws(RequestError) { try part.synchronize() } catch { return completion(.failure(error)) }
        let result = place()
        PartFile.synchronize(directory: plan.directory.path)
        completion(result)
    }

    private func place(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> URL {
        guard let part else { throw .file("is closed", plan.directory.path, EBADF) }
        var name = stem
        if case .directory = plan.target { name = plan.fileName(head, of: request) }
        let base = name
        var number = 0
        while try !part.rename(to: plan.directory.path + "/" + name, replaces: plan.existing == .overwrite) {
            switch plan.existing {
            case .overwrite, .fail: throw plan.existsAlready(name)
            case .skip:
                part.remove()
                return finishCommit(name)
            case .rename: break
            }
            number += 1
            name = FileName.numbered(base, number)
        }
        return finishCommit(name)
    }

    private func finishCommit(_ name: String) -> URL {
        if isRecordSaved { resumeFile?.remove() }
        part?.close()
        part = nil
        return plan.directory.appending(path: name, directoryHint: .notDirectory)
    }

    /// Stops what takes long; what has come may still be written.
    func stop() { isStopped.withLock { $0 = true } }

    /// Lets go of the part: what can be continued stays, everything else goes.
    ///
    /// - Parameter completion: called when another download may have it, on the queue.
    func close(_ completion: @escaping @Sendable () -> Void) {
        stop()
        queue.async {
            self.letGo()
            completion()
        }
    }

    private func letGo() {
        guard let part else { return }
        defer {
            part.close()
            self.part = nil
        }
        // What was found and not touched is somebody else's.
        if !hasBegunBody, part.wasThere { return }
        if record != nil, part.byteCount > 0, (try? saveRecord(synchronized: false)) != nil { return }
        // On a full disk the record of before has to do.
        if record != nil, isRecordSaved, part.byteCount > 0 { return }
        if isRecordSaved { resumeFile?.remove() }
        part.remove()
    }
}

extension DownloadPlan {
    func exists(_ name: String) -> Bool {
        var status = stat()
        return lstat(directory.path + "/" + name, &status) == 0
    }

    func existsAlready(_ name: String) -> RequestError {
        RequestError(
            .destinationExists,
            "the file \(directory.path)/\(name) exists already; remove it, or choose what happens then with saved(to:existing:)"
        )
    }
}
