// The files beside a target during its download.
import Foundation

/// The names of a file's part (the partial file) and of its sidecar files.
package struct PartName: Sendable {
    /// The hidden name with which all these names begin.
    private let stem: String

    /// - Parameter fileName: the file's name. A name that is too long is shortened and made unique by a hash.
    package init(_ fileName: String) {
        let isLong = fileName.utf8.count > 200
        let digest = isLong ? "~" + SHA256.digest(of: Data(fileName.utf8)).hexadecimal.prefix(16) : ""
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
