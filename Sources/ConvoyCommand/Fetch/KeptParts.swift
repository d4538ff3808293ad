// What failed and cancelled downloads leave for the next run.
import Convoy
import Foundation

/// How many files are kept in part, and how much of them.
struct KeptParts: Sendable, Equatable {
    var count = 0
    var bytes: Int64 = 0

    mutating func add(_ part: Int64) {
        count += 1
        bytes += part
    }

    /// What to say about them; nil when there are none.
    var text: String? {
        guard count > 0 else { return nil }
        let (verb, object) = count == 1 ? ("is", "it") : ("are", "them")
        return
            "\(Figures.count(count, "file")) \(verb) kept in part, \(Figures.bytes(bytes)); the same command continues \(object)"
    }
}

/// Finds the parts in an output directory: `.NAME.convoy-part`, each with its record `.NAME.convoy-resume`.
///
/// Bytes that the same command would ask for again do not count.
struct PartFinder: Sendable {
    let directory: String
    /// Whether the names of files are known before they are there; otherwise parts are told by their age.
    let knowsNames: Bool
    /// Whether the command fetches files in segments.
    let usesSegments: Bool
    /// When the run began.
    let started: Date

    /// How much is kept of an item; nil when nothing is, or that cannot be told.
    func keptBytes(of item: FetchItem) -> Int64? {
        guard knowsNames else { return nil }
        return KeptPart.usableBytes(
            PartName(item.fileName), in: directory, of: item.url, inSegments: usesSegments,
            isVerified: item.digest != nil)?.count
    }

    /// All parts that were let go of in this run; for names that only the library knows.
    ///
    /// Those of another run into the same directory at the same time are among them.
    func allOfThisRun() -> KeptParts {
        var parts = KeptParts()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names.compactMap({ PartName(part: $0) }) {
            let kept = KeptPart.usableBytes(
                name, in: directory, of: nil, inSegments: usesSegments, isVerified: false)
            // File systems keep seconds only, some of them two.
            guard let kept, kept.noted > started.addingTimeInterval(-2) else { continue }
            parts.add(kept.count)
        }
        return parts
    }
}
