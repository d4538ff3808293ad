// A duration in seconds, and for people.
import Foundation

extension Duration {
    /// The duration in seconds, for Foundation: at most eleven days, which is for ever to a timeout, and what no loader
    /// trips over.
    var seconds: TimeInterval {
        // Before it is taken apart: that traps for what Int64 cannot hold.
        guard self < .seconds(1_000_000) else { return 1_000_000 }
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        return TimeInterval(seconds) + TimeInterval(attoseconds) * 1e-18
    }

    /// The duration for people: whole milliseconds below a second, then seconds with one decimal.
    var words: String {
        let milliseconds = Int((seconds * 1_000).rounded())
        guard milliseconds >= 1_000 else { return "\(milliseconds) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
