// What lies beside a file while it is downloaded.
import Foundation

/// The names of a file's part and of its record.
package struct PartName: Sendable {
    /// The hidden name that both begin with.
    private let stem: String

    /// - Parameter fileName: the file's; one that leaves too little room is shortened, and told apart by a hash.
    package init(_ fileName: String) {
        let isLong = fileName.utf8.count > 200
        let digest = isLong ? "~" + SHA256.digest(of: Data(fileName.utf8)).hexadecimal.prefix(16) : ""
        stem = "." + (isLong ? String(decoding: fileName.utf8.prefix(160), as: UTF8.self) : fileName) + digest
    }

    /// The names that belong to a part that was found; nil when it is none.
    package init?(part: String) {
        guard part.hasPrefix("."), part.hasSuffix(Self.partSuffix) else { return nil }
        stem = String(part.dropLast(Self.partSuffix.count))
    }

    private static let partSuffix = ".convoy-part"

    package var part: String { stem + Self.partSuffix }
    package var record: String { stem + ".convoy-resume" }
    /// Stays beside the file.
    package var version: String { stem + ".convoy-version" }
}
