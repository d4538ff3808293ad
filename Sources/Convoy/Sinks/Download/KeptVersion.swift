// The version of a downloaded file, stored beside it.
import Foundation

// Sent with the next request. Valid only while the file's size and modification time are the same.
struct KeptVersion: SidecarRecord, Hashable {
    static let heading = "convoy-version 1\n"

    var key: String
    var name: String
    /// The entity tag, strong or weak: the server decides whether a weak tag still matches.
    var entityTag: String?
    /// The source of the file, see ``Validator/source(_:)``; nil when unknown.
    var source: String?
    /// The modification date, unless the file may have changed twice within its second.
    var lastModified: String?
    var byteCount: Int64
    var changedSeconds: Int64
    var changedNanoseconds: Int64

    /// Nil when the response has no valid entity tag and no usable modification date.
    init?(of head: ResponseHead, key: String, name: String, _ status: stat, now: Date) {
        entityTag = head.headerFields.onlyValue(of: "ETag").flatMap { $0.isEntityTag ? $0 : nil }
        lastModified = Validator.strongModificationDate(of: head, now: now)
        if entityTag == nil, lastModified == nil { return nil }
        (self.key, self.name, byteCount) = (key, name, Int64(status.st_size))
        (changedSeconds, changedNanoseconds) = (Int64(status.changed.tv_sec), Int64(status.changed.tv_nsec))
        source = head.url.flatMap { validator?.source($0) }
    }

    var isSound: Bool {
        FileName.isOneName(name) && entityTag.map(\.isEntityTag) != false
            && lastModified.map { Validator.lastModified($0).isSound } != false
    }

    private var validator: Validator? { entityTag.map(Validator.entityTag) ?? lastModified.map(Validator.lastModified) }

    func isOf(_ url: URL) -> Bool { source == nil || source == validator?.source(url) }

    /// A 304 may omit the entity tag; a strong tag must equal the requested one (RFC 9111, section 4.3.4).
    func isMeant(by head: ResponseHead) -> Bool {
        guard let entityTag, let named = head.headerFields.onlyValue(of: "ETag"), named.isStrongEntityTag else {
            return true
        }
        return entityTag.utf8.drop { $0 != UInt8(ascii: "\"") }.elementsEqual(named.utf8)
    }

    func describes(_ status: stat) -> Bool {
        Int64(status.st_size) == byteCount && Int64(status.changed.tv_sec) == changedSeconds
            && Int64(status.changed.tv_nsec) == changedNanoseconds && status.isFile
    }

    /// Adds the conditions so that an unchanged file is not sent (RFC 9110, sections 13.1.2 and 13.1.3).
    func add(to headerFields: inout HeaderFields) {
        headerFields["If-None-Match"] = entityTag
        headerFields["If-Modified-Since"] = lastModified
    }
}

extension Download {
    /// Nil without `.updateIfChanged`, without a saved version, or if the file was changed since or has another digest.
    func findVersion() throws(RequestError) -> KeptVersion? {
        guard plan.existing == .updateIfChanged, let version = try versionFile.read(), version.key == key,
            fileName.map({ $0 == version.name }) ?? FileName.isSafe(version.name),
            let status = stat(directory + "/" + version.name), version.describes(status)
        else { return nil }
        guard let wanted = plan.digest else { return version }
        return try hasDigest(wanted, directory + "/" + version.name) ? version : nil
    }

    func unchangedFile(_ head: ResponseHead, of request: PreparedRequest) throws(RequestError) -> URL {
        if let version, !version.isMeant(by: head) {
            // The version is removed, so that the next download does not send it.
            versionFile.remove()
            throw RequestError(
                .badResponse,
                "the server answered that the file is unchanged (304), but named another version than that of the existing file; the next download fetches the file"
            )
        }
        let file = plan.directory.appending(
            path: version?.name ?? plan.fileName(head, of: request), directoryHint: .notDirectory)
        guard stat(file.path, followsLinks: true)?.isFile == true else {
            throw RequestError(
                .badResponse,
                "the server answered that the file is unchanged (304), but the file \(file.path) does not exist")
        }
        if let wanted = plan.digest, try !hasDigest(wanted, file.path) {
            throw RequestError(
                .integrityFailed,
                "the server answered that the file is unchanged (304), but the digest of \(file.path) is not \(wanted)"
            )
        }
        return file
    }

    /// The previous version is removed first, because it must not be stored beside another file.
    func prepareVersion(_ head: ResponseHead, named name: String) throws(RequestError) -> KeptVersion? {
        guard plan.existing == .updateIfChanged, let part else { return nil }
        versionFile.remove()
        let changed = head.headerFields.onlyValue(of: "Last-Modified").flatMap { HTTPDate($0, now: Date()) }
        let status = try part.status(changedAt: changed?.secondsSince1970)
        // Convoy adds no condition to a request with its own codings or conditions, so it needs no version.
        return isContinuable ? KeptVersion(of: head, key: key, name: name, status, now: Date()) : nil
    }
}
