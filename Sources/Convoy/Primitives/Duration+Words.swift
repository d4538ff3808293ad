// A duration in seconds, and as a text.
import Foundation

extension Duration {
    /// The duration in seconds for Foundation, from 0 to 1,000,000 (eleven and a half days).
    ///
    /// Some implementations of URLSession fail with longer timeouts.
    var seconds: TimeInterval {
        // The duration is compared first, because the conversion traps when the seconds overflow `Int64`.
        guard self < .seconds(1_000_000) else { return 1_000_000 }
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        return TimeInterval(seconds) + TimeInterval(attoseconds) * 1e-18
    }

    /// The duration as a text: whole milliseconds below a second, then seconds with one decimal, up to 1,000,000.
    var words: String {
        let milliseconds = Int((seconds * 1_000).rounded())
        guard milliseconds >= 1_000 else { return "\(milliseconds) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
