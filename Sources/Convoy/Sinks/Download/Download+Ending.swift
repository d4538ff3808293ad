// The end of a download: its part is verified and renamed, or stored for a later download.
import Foundation

extension Download {
    func verify() throws(RequestError) {
        guard let part, !isUnchanged else { return }
        if isSegmented {
            guard let totalBytes, segments.ranges == [0..<totalBytes] else {
                throw RequestError(.connectionLost, "some segments of the file are not complete")
            }
            try checkIntact()
            // Removes the extra byte, see ``beginSegments(_:count:hasMirrors:)``.
            try part.truncate(to: totalBytes)
        }
        if let totalBytes, part.byteCount != totalBytes {
            guard part.byteCount < totalBytes else {
                let byteCount = part.byteCount
                try clear()
                throw RequestError(
                    .integrityFailed, "the file has \(byteCount) bytes, but the server announced \(totalBytes)")
            }
            throw RequestError(
                .connectionLost, "the body ended after \(part.byteCount) of \(totalBytes) bytes")
        }
        if let wanted = plan.byteCount, part.byteCount != wanted {
            let byteCount = part.byteCount
            try clear()
            throw RequestError(
                .integrityFailed,
                "the received file has \(byteCount) bytes instead of \(wanted); these bytes were deleted")
        }
        guard let expected else { return }
        try catchUp()
        guard let digest, digest.byteCount == part.byteCount else {
            throw RequestError(.cancelled, "it was cancelled before its digest was known")
        }
        let found: FileDigest
        do throws(RequestError) { found = try digest.finish(of: part.path) } catch {
            // A digest object that has failed fails again, so it is discarded.
            self.digest = nil
            throw error
        }
        guard found != expected else { return }
        try clear()
        throw RequestError(
            .integrityFailed,
            "the received file has the digest \(found) instead of \(expected); these bytes were deleted")
    }

    func commit(
        _ head: ResponseHead, of request: PreparedRequest,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void
    ) {
        guard let part else { return completion(.failure(.file("is closed", directory, EBADF))) }
        if isUnchanged {
            return completion(
                Result { () throws(RequestError) in
                    defer { letGo() }
                    return try unchangedFile(head, of: request)
                })
        }
        // Until the download has ended, nothing else uses its state, on whichever thread this code runs.
        let place: @Sendable (Int32) -> Result<URL, RequestError> = { [path = part.path] problem in
            Result { () throws(RequestError) in
                guard problem == 0 else {
                    self.distrustUnsynced()
                    throw .file("could not be written", path, problem)
                }
                return try self.place(head, of: request)
            }
        }
        // On a file system in memory, nothing waits for a disk. So this executor ends the download in one step.
        guard !part.isInMemory else { return completion(place(0)) }
        // A part with at most 1 MiB of unsynchronised bytes is synchronised together with others, any other part alone.
        guard part.byteCount - lastCheckpoint.byteCount > Self.smallBytes else {
            return DiskSync.of(part.device).commit(
                DiskSync.File(
                    descriptor: part.descriptor, directory: directory, place: place, completion: completion))
        }
        do throws(RequestError) { try synchronize() } catch { return completion(.failure(error)) }
        let result = place(0)
        guard case .success(let file) = result else { return completion(result) }
        let problem = PartFile.synchronize(directory: directory)
        completion(problem == 0 ? result : .failure(.nameNotOnDisk(file.path, problem)))
    }

    private func place(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> URL {
        guard let part else { throw .file("is closed", directory, EBADF) }
        var (name, base, number) = (stem, partStem, stemNumber)
        if case .directory = plan.target {
            let proposed = head.headerFields.proposedFileName == nil ? record?.name : nil
            name = proposed ?? plan.fileName(head, of: request)
            (base, number) = (name, 0)
        }
        try checkIntact()
        try part.setFinalPermissions(plan.permissions, replacing: plan.replaces ? directory + "/" + name : nil)
        let version = try prepareVersion(head, named: name)
        while try !give(part, directory + "/" + name, replaces: plan.replaces) {
            switch plan.existing {
            case .overwrite, .updateIfChanged, .fail: throw plan.existsAlready(name)
            case .skip:
                try plan.checkFile(name)
                part.remove()
                return finishCommit(name)
            case .rename: break
            }
            number += 1
            name = FileName.numbered(base, number)
        }
        // A failure is ignored: without the version file, the next download only fetches the file again.
        if let version { try? versionFile.write(version, synchronized: false) }
        return finishCommit(name)
    }

    /// Gives the part its final name.
    ///
    /// Returns false when a file of that name exists and must not be replaced.
    private func give(_ part: PartFile, _ path: String, replaces: Bool) throws(RequestError) -> Bool {
        if replaces {
            try part.rename(to: path)
            return true
        }
        if let isFree = try part.renameIfFree(to: path) { return isFree }
        // `linkIfFree` gives the file two names for a moment. If the process is killed then, the part's name stays.
        // With a record, a later download would resume the part even after the file was changed. So the record is
        // removed first.
        if isRecordSaved { resumeFile.remove() }
        isRecordSaved = false
        return try part.linkIfFree(to: path)
    }

    private func finishCommit(_ name: String) -> URL {
        if isRecordSaved { resumeFile.remove() }
        part?.close()
        part = nil
        if case .file(let file) = plan.target, name == fileName { return file }
        return plan.directory.appending(path: name, directoryHint: .notDirectory)
    }

    /// Releases the part; after `completion`, another download may use it.
    ///
    /// `completion` is called on the serial executor.
    func close(_ completion: @escaping @Sendable () -> Void) {
        stop()
        executor.async {
            self.letGo()
            completion()
        }
    }

    func release(_ completion: @escaping @Sendable () -> Void) {
        executor.async {
            if !self.isClosed {
                self.letGo()
                self.isClosed = false
                // The next attempt opens the part again, as another process would.
                (self.record, self.isRecordSaved, self.digest, self.expected) = (nil, false, nil, nil)
                (self.hasBegunBody, self.foundBytes, self.totalBytes) = (false, 0, nil)
                self.lastCheckpoint = (0, .now)
            }
            completion()
        }
    }

    private func letGo() {
        let discarded = isClosed ? nil : shared.withLock { $0.discarded }
        isClosed = true
        if let discarded, part == nil { try? openPart(of: discarded, permissions: plan.permissions) }
        guard let part else { return }
        defer {
            part.close()
            self.part = nil
        }
        // An existing part that this download has not changed belongs to another download, unless its record says that
        // it belongs to this one.
        let isOther = !hasBegunBody && part.wasThere
        if isOther && (discarded == nil || record == nil) || !part.hasItsName { return }
        if discarded != nil {
            resumeFile.remove()
            return part.remove()
        }
        makeRecord()
        if isSegmented, segments.byteCount == 0 { record = nil }
        if record != nil, part.byteCount > 0, (try? saveRecord(synchronized: false)) != nil { return }
        // If the record cannot be saved, for example on a full disk, the previous one is still valid.
        if record != nil, isRecordSaved, part.byteCount > 0 { return }
        if isRecordSaved { resumeFile.remove() }
        part.remove()
    }
}
