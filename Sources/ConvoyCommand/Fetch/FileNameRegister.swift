// Unique names for the files of a run.
import Convoy

/// Gives each file of a run a unique name.
///
/// The register stores a hash of each name instead of the name, so a million names take about 25 MB. If two names have
/// the same hash, one of them gets an unnecessary number.
struct FileNameRegister {
    /// For the hash of each used name, the number to try next when the name is repeated.
    private var nextNumbers: [Int: Int32] = [:]

    /// Returns the unchanged name the first time; later the name with the next free number.
    mutating func claim(_ name: String) -> String {
        let key = Self.key(name)
        guard var number = nextNumbers[key] else {
            nextNumbers[key] = 1
            return name
        }
        var candidate: String
        repeat {
            candidate = FileName.numberedPath(name, Int(number))
            number += 1
        } while nextNumbers[Self.key(candidate)] != nil
        nextNumbers[key] = number
        nextNumbers[Self.key(candidate)] = 1
        return candidate
    }

    private static func key(_ name: String) -> Int {
        #if canImport(Darwin)
            // On macOS, most file systems treat names that differ only by case as one file.
            return name.lowercased().hashValue
        #else
            return name.hashValue
        #endif
    }
}
