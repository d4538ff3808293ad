// Which version of a resource a file is, kept beside it.
import Foundation

/// What a server said of a file when it sent it, so that the next download asks whether there is another version.
///
/// It says so of a file that has the same size and time of change as then: one that was written to, or replaced, by
/// another program is not what the server sent.
struct KeptVersion: SidecarRecord, Hashable {
    static let heading = "convoy-version 1\n"

    /// See ``PreparedRequest/downloadKey``.
    var key: String
    /// What the file is called.
    var name: String
    /// The entity tag, strong or weak: of a weak one the server says itself whether it still matches.
    var entityTag: String?
    /// What sent the file, see ``Validator/source(_:)``; nil where that is not known.
    var source: String?
    /// The moment of the last change, where it is a strong validator: within one second a file may change twice.
    var lastModified: String?
    /// Of the file.
    var byteCount: Int64
    var changedSeconds: Int64
    var changedNanoseconds: Int64

    /// - Parameter status: of the file.
    /// - Returns: nil where the server names no version.
    init?(of head: ResponseHead, key: String, name: String, _ status: stat, now: Date) {
        entityTag = head.headerFields.onlyValue(of: "ETag").flatMap { $0.isEntityTag ? $0 : nil }
        lastModified = Validator.strongModificationDate(of: head, now: now)
        if entityTag == nil, lastModified == nil { return nil }
        (self.key, self.name, byteCount) = (key, name, Int64(status.st_size))
        (changedSeconds, changedNanoseconds) = status.lastChange
        source = head.url.flatMap(makeSource)
    }

    var isSound: Bool {
        FileName.isOneName(name) && entityTag.map(\.isEntityTag) != false
            && lastModified.map { Validator.lastModified($0).isSound } != false
    }

    private func makeSource(_ url: URL) -> String? {
        (entityTag.map(Validator.entityTag) ?? lastModified.map(Validator.lastModified))?.source(url)
    }

    /// Whether it says something of what is at a URL.
    func isOf(_ url: URL) -> Bool { source == nil || source == makeSource(url) }

    /// Whether an answer that says that nothing has changed is about this version.
    ///
    /// It may leave the entity tag out; a strong one has to be the one that was asked for (RFC 9111, section 4.3.4).
    func isMeant(by head: ResponseHead) -> Bool {
        guard let entityTag, let named = head.headerFields.onlyValue(of: "ETag"), named.isStrongEntityTag else {
            return true
        }
        return entityTag.utf8.drop { $0 != UInt8(ascii: "\"") }.elementsEqual(named.utf8)
    }

    /// Whether a file is still the one that was saved.
    func describes(_ status: stat) -> Bool {
        Int64(status.st_size) == byteCount && status.lastChange == (changedSeconds, changedNanoseconds)
            && status.st_mode & S_IFMT == S_IFREG
    }

    /// What the request says so that nothing is sent when the file is still the same (RFC 9110, sections 13.1.2 and 13.1.3).
    func add(to headerFields: inout HeaderFields) {
        headerFields["If-None-Match"] = entityTag
        headerFields["If-Modified-Since"] = lastModified
    }
}

extension stat {
    fileprivate var lastChange: (Int64, Int64) {
        #if canImport(Darwin)
            (Int64(st_mtimespec.tv_sec), Int64(st_mtimespec.tv_nsec))
        #else
            (Int64(st_mtim.tv_sec), Int64(st_mtim.tv_nsec))
        #endif
    }
}

extension Download {
    /// The version of the file that is there, where that is known; nil when it has to be fetched whatever it is.
    func findVersion() throws(RequestError) -> KeptVersion? {
        guard plan.existing == .updateIfChanged, let version = try versionFile?.read(), version.key == key,
            plan.mayBeNamed(version.name)
        else { return nil }
        var status = stat()
        let path = plan.directory.path + "/" + version.name
        guard lstat(path, &status) == 0, version.describes(status) else { return nil }
        if let wanted = plan.digest {
            guard try FileDigest.ofFile(path, wanted.algorithm, while: { !isStopped }) == wanted else { return nil }
        }
        return version
    }

    /// The file that the server says is still the one that it has.
    func unchangedFile(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> URL {
        if let version, !version.isMeant(by: head) {
            // Not asked by again.
            versionFile?.remove()
            throw RequestError(
                .badResponse,
                "the server says that nothing has changed (304), and names another version than the one that is there; the next download fetches the file"
            )
        }
        let file = plan.directory.appending(
            path: version?.name ?? plan.fileName(head, of: request), directoryHint: .notDirectory)
        var status = stat()
        guard stat(file.path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw RequestError(
                .badResponse, "the server says that nothing has changed (304), and there is no file \(file.path)")
        }
        guard let wanted = plan.digest else { return file }
        let found = try FileDigest.ofFile(file.path, wanted.algorithm, while: { !isStopped })
        guard found == wanted else {
            throw RequestError(
                .integrityFailed,
                "the server says that nothing has changed (304), and the file \(file.path) has another digest than \(wanted)"
            )
        }
        return file
    }

    /// Gives the part the time of the last change, and says what is to be kept beside the file.
    ///
    /// What is there of the version before goes: it must not be beside another file.
    func prepareVersion(_ head: ResponseHead, named name: String) throws(RequestError) -> KeptVersion? {
        guard plan.existing == .updateIfChanged, let part else { return nil }
        versionFile?.remove()
        let changed = head.headerFields.onlyValue(of: "Last-Modified").flatMap { HTTPDate($0, now: Date()) }
        let status = try part.status(changedAt: changed?.secondsSince1970)
        // A request that asks for codings or conditions of its own is never asked for a change.
        return !isContinuable ? nil : KeptVersion(of: head, key: key, name: name, status, now: Date())
    }
}
