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
/// A part without a record cannot be continued, and does not count.
struct PartFinder: Sendable {
    let directory: String
    /// Whether the names of files are known before they are there; otherwise parts are told by their age.
    let knowsNames: Bool
    /// When the run began.
    let started: Date

    /// How much is kept of an item; nil when nothing is, or nobody can tell.
    func keptBytes(of item: FetchItem) -> Int64? {
        knowsNames ? keptBytes(of: PartName(item.fileName))?.bytes : nil
    }

    /// All parts that were let go of in this run; for names that only the library knows.
    ///
    /// Those of another run into the same directory at the same time are among them.
    func allOfThisRun() -> KeptParts {
        var parts = KeptParts()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names.compactMap({ PartName(part: $0) }) {
            // File systems keep seconds only, some of them two.
            guard let kept = keptBytes(of: name), kept.recorded > started.addingTimeInterval(-2) else { continue }
            parts.add(kept.bytes)
        }
        return parts
    }

    private func keptBytes(of name: PartName) -> (bytes: Int64, recorded: Date)? {
        var (part, record) = (stat(), stat())
        guard lstat("\(directory)/\(name.part)", &part) == 0, part.st_size > 0,
            lstat("\(directory)/\(name.record)", &record) == 0
        else { return nil }
        #if canImport(Darwin)
            let seconds = record.st_mtimespec.tv_sec
        #else
            let seconds = record.st_mtim.tv_sec
        #endif
        // A part that is filled in several places has its full length from the start, and blocks only where bytes are.
        let bytes = min(Int64(part.st_size), Int64(part.st_blocks) * 512)
        return (bytes, Date(timeIntervalSince1970: TimeInterval(seconds)))
    }
}
