// The value of `--db`. Its password is never shown.
import Foundation

/// The value of `--db`: a file, or the address of a PostgreSQL database.
enum DatabaseAddress {
    /// Whether a text without `://` may contain a password.
    ///
    /// The command does not use such a text as a file name.
    static func mayHoldPassword(_ text: String) -> Bool {
        let lower = text.lowercased()
        let user = lower.prefix { $0 != "/" }.split(separator: "@", omittingEmptySubsequences: false)
        return lower.contains("password=") || lower.hasPrefix("postgres:") || lower.hasPrefix("postgresql:")
            || user.count > 1 && user[0].contains(":")
    }

    /// Overwrites database addresses in the arguments of the process, which other users can read (`ps`).
    ///
    /// - Parameters:
    ///   - arguments: the original C arguments, not copies.
    ///   - count: the number of arguments.
    /// - Thread: the main thread, before other threads exist.
    static func hide(in arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, _ count: Int32) {
        for index in 1..<max(1, Int(count)) {
            guard let argument = arguments[index] else { continue }
            let text = String(cString: argument)
            let isValue = text.hasPrefix("--db=") || arguments[index - 1].map { String(cString: $0) } == "--db"
            guard isValue, text.contains("://") || mayHoldPassword(String(text.trimmingPrefix("--db="))) else {
                continue
            }
            let start = text.hasPrefix("--db=") ? 5 : 0
            for place in start..<max(start, strlen(argument)) { argument[place] = CChar(UInt8(ascii: "*")) }
        }
    }
}
