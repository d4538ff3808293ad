// The parts of failed and cancelled downloads, for the next run.
import Convoy
import Foundation

/// The number of part files and the sum of their bytes.
struct KeptParts: Sendable, Equatable {
    var count = 0
    var bytes: Int64 = 0

    mutating func add(_ part: Int64) {
        count += 1
        bytes += part
    }

    /// A text about the parts; nil if there are none.
    var text: String? {
        guard count > 0 else { return nil }
        let (verb, object) = count == 1 ? ("is", "it") : ("are", "them")
        return
            "\(Figures.count(count, "file")) \(verb) kept in part, \(Figures.bytes(bytes)); the same command continues \(object)"
    }
}

/// Finds the parts in an output directory: `.NAME.convoy-part`, each with its record `.NAME.convoy-resume`.
///
/// Bytes that the same command would request again do not count.
struct PartFinder: Sendable {
    let directory: String
    /// Whether file names are known in advance.
    ///
    /// If false, parts are identified by the time of their records.
    let knowsNames: Bool
    let usesSegments: Bool
    let started: Date
    /// Whether the next free number is added to a name that exists.
    var numbersNames = false

    /// The bytes in the part file of an item; nil if there are none, or if the file name is unknown.
    func keptBytes(of item: FetchItem) -> Int64? {
        if knowsNames { return part(item.fileName, of: item)?.count }
        guard numbersNames else { return nil }
        for number in 0..<10_000 {
            let name = number == 0 ? item.fileName : FileName.numberedPath(item.fileName, number)
            if let kept = part(name, of: item), isOfThisRun(kept.noted) { return kept.count }
            // If a file with this name or with the name of its part exists, the next number is tried.
            let path = FilePath(name)
            let place = path.directory(in: directory)
            let isTaken = [path.last, PartName(path.last).part].contains {
                FileType.of(place + "/" + $0, followsLinks: false) != nil
            }
            guard isTaken else { break }
        }
        return nil
    }

    private func part(_ name: String, of item: FetchItem) -> (count: Int64, noted: Date)? {
        let path = FilePath(name)
        return PartName(path.last).usableBytes(
            in: path.directory(in: directory), of: item.url, inSegments: usesSegments, isVerified: item.digest != nil)
    }

    /// Whether this run wrote the record with this modification time.
    ///
    /// Some file systems round times down to a multiple of two seconds.
    private func isOfThisRun(_ noted: Date) -> Bool { noted > started.addingTimeInterval(-2) }

    /// All parts that this run wrote.
    ///
    /// It is used if the server names the files, because their names are then unknown here.
    ///
    /// Parts of another concurrent run in the same directory are included.
    func allOfThisRun() -> KeptParts {
        var parts = KeptParts()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names.compactMap({ PartName(part: $0) }) {
            let kept = name.usableBytes(in: directory, of: nil, inSegments: usesSegments, isVerified: false)
            guard let kept, isOfThisRun(kept.noted) else { continue }
            parts.add(kept.count)
        }
        return parts
    }
}

extension PartFinder {
    /// Finds the parts of a run that starts now.
    init(_ options: FetchOptions) {
        let isRenamed = options.existing == .rename
        self.init(
            directory: options.directory, knowsNames: !options.takesProposedNames && !isRenamed,
            usesSegments: options.segments > 1, started: Date(),
            numbersNames: !options.takesProposedNames && isRenamed)
    }
}
