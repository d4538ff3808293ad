// The files beside a target during its download.
import Foundation

package struct PartName: Sendable {
    /// The beginning of these names: a dot, which hides the files, and the file's name, shortened if it is too long.
    private let stem: String

    package init(_ fileName: String) {
        let isLong = fileName.utf8.count > 200
        let digest = isLong ? "~" + FileDigest.ofBytes(Data(fileName.utf8)).hexadecimal.prefix(16) : ""
        stem = "." + (isLong ? String(decoding: fileName.utf8.prefix(160), as: UTF8.self) : fileName) + digest
    }

    /// The names for an existing part; nil when the name is not a part's.
    package init?(part: String) {
        guard part.hasPrefix("."), part.hasSuffix(Self.partSuffix) else { return nil }
        stem = String(part.dropLast(Self.partSuffix.count))
    }

    private static let partSuffix = ".convoy-part"

    package var part: String { stem + Self.partSuffix }
    package var record: String { stem + ".convoy-resume" }
    /// The version file stays beside the target after the download.
    package var version: String { stem + ".convoy-version" }
}

extension PartName {
    // The bytes are usable if the server still has the version; nil when none are. A nil URL accepts any URL.
    // `inSegments` means that the download can fill gaps. Without a digest (`isVerified`), a part with bytes of mirrors
    // is not usable.
    package func usableBytes(
        in directory: String, of url: URL?, inSegments: Bool, isVerified: Bool
    ) -> (count: Int64, noted: Date)? {
        let file = SidecarFile<ResumeRecord>(path: directory + "/" + record)
        guard let status = stat(directory + "/" + part), let noted = stat(file.path), let found = try? file.read(),
            found.needsDigest != true || isVerified, url.map(found.belongs) != false
        else { return nil }
        let ranges = found.usableRanges(ofPart: Int64(status.st_size), boot: Boot.name)
        let count = inSegments ? ranges.byteCount : ranges.leadingBytes
        return count > 0 ? (count, Date(timeIntervalSince1970: TimeInterval(noted.changed.tv_sec))) : nil
    }

    // Compared with the previous call, perhaps of another process; the record stores the number. False while a download
    // has locked the part.
    package func noteGrowth(in directory: String) -> Bool {
        let path = directory + "/" + part
        // Opening would make a missing part.
        guard stat(path) != nil, let part = try? PartFile.open(path, permissions: 0o600, isFilledInPlace: true) else {
            return false
        }
        defer { part.close() }
        let file = SidecarFile<ResumeRecord>(path: directory + "/" + record)
        guard part.wasThere, var found = try? file.read() else { return false }
        let count = found.usableRanges(ofPart: part.byteCount, boot: Boot.name).byteCount
        let noted = found.notedBytes ?? 0
        guard count != noted else { return false }
        // After a system crash, fewer bytes may be reliable.
        found.notedBytes = count
        return (try? file.write(found, synchronized: false)) != nil && count > noted
    }
}
