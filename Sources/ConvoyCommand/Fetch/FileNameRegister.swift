// One name for each file of a run.
import Convoy

/// Gives each file of a run a name of its own.
///
/// It keeps a hash of each name and not the name, so that a million names take some twenty megabytes. Two names with
/// the same hash cost one of them a number, and nothing else.
struct FileNameRegister {
    /// For each name that was given: which number to try next when it comes again.
    private var nextNumbers: [Int: Int32] = [:]

    /// The name itself the first time; later the name with the next free number.
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
            // Names that differ by case only are one file there.
            return name.lowercased().hashValue
        #else
            return name.hashValue
        #endif
    }
}
