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
    /// Whether the next free number is put behind a name that is taken.
    var numbersNames = false

    /// How much is kept of an item; nil when nothing is, or that cannot be told.
    func keptBytes(of item: FetchItem) -> Int64? {
        if knowsNames { return part(item.fileName, of: item)?.count }
        guard numbersNames else { return nil }
        for number in 0..<10_000 {
            let name = number == 0 ? item.fileName : FileName.numberedPath(item.fileName, number)
            if let kept = part(name, of: item), isOfThisRun(kept.noted) { return kept.count }
            // The file or the part of another item has the name.
            var status = stat()
            let path = FilePath(name)
            let place = path.directory(in: directory)
            let isTaken = [path.last, PartName(path.last).part].contains { lstat(place + "/" + $0, &status) == 0 }
            guard isTaken else { break }
        }
        return nil
    }

    private func part(_ name: String, of item: FetchItem) -> (count: Int64, noted: Date)? {
        let path = FilePath(name)
        return KeptPart.usableBytes(
            PartName(path.last), in: path.directory(in: directory), of: item.url, inSegments: usesSegments,
            isVerified: item.digest != nil)
    }

    /// File systems keep seconds only, some of them two.
    private func isOfThisRun(_ noted: Date) -> Bool { noted > started.addingTimeInterval(-2) }

    /// All parts that were let go of in this run; for names that only the library knows.
    ///
    /// Those of another run into the same directory at the same time are among them.
    func allOfThisRun() -> KeptParts {
        var parts = KeptParts()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names.compactMap({ PartName(part: $0) }) {
            let kept = KeptPart.usableBytes(
                name, in: directory, of: nil, inSegments: usesSegments, isVerified: false)
            guard let kept, isOfThisRun(kept.noted) else { continue }
            parts.add(kept.count)
        }
        return parts
    }
}
