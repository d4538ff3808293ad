// The output, and the exit status of the process.
import Foundation

/// A standard stream.
enum OutputStreamName {
    case output
    case error
}

/// Writes text without a buffer.
func write(_ text: String, to name: OutputStreamName) {
    let file = name == .output ? FileHandle.standardOutput : FileHandle.standardError
    // A closed pipe, such as one to `head`, is not an error of the measurement.
    try? file.write(contentsOf: Data(text.utf8))
}

/// Ends the process without exit handlers.
///
/// On Linux the exit handlers of OpenSSL race with the threads of libcurl and crash.
func leave(_ code: Int32) -> Never {
    fflush(nil)
    _exit(code)
}

extension Double {
    /// The number with about four digits, and separators between thousands.
    var figure: String {
        guard isFinite else { return "-" }
        if abs(self) >= 1_000 { return Int(self.rounded()).figure }
        return String(format: abs(self) >= 100 ? "%.1f" : abs(self) >= 1 ? "%.2f" : "%.4f", self)
    }
}

extension Int {
    /// The number with separators between thousands.
    var figure: String {
        var (digits, groups) = (String(magnitude), [String]())
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits = String(digits.dropLast(3))
        }
        return (self < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
    }

    /// Bytes in MiB.
    var mebibytes: String { String(format: "%.1f MiB", Double(self) / 1_048_576) }
}
