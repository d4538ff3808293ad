// One line of progress, for any width.
import Foundation

/// What one line of progress says; a value that can be laid out for any terminal.
struct ProgressLine: Equatable {
    var label: String
    /// 0 to 1; nil while nobody knows, which leaves the bar out.
    var fraction: Double?
    /// Beside the bar, the most important first; as many as fit.
    var details: [String]

    /// The line in at most so many columns: the details first, then the bar, then as much of the label as fits.
    func text(columns: Int) -> String {
        let labelColumns = max(8, min(30, columns / 4))
        var rest = columns - labelColumns
        var tail = ""
        if let fraction {
            let percent = String(Int((min(max(fraction, 0), 1) * 100).rounded(.down)))
            let text = "  \(percent.padded(toColumns: 3)) %"
            if text.count <= rest {
                tail += text
                rest -= text.count
            }
        }
        for detail in details {
            let text = "  " + detail
            guard text.columnCount <= rest else { break }
            tail += text
            rest -= text.columnCount
        }
        var bar = ""
        if let fraction, rest >= 10 { bar = "  " + Self.bar(fraction, columns: min(rest - 2, 32)) }
        return (label.fitted(toColumns: labelColumns) + bar + tail).clipped(toColumns: columns)
    }

    /// `[=====>    ]` in exactly so many columns, of which there are at least 3.
    static func bar(_ fraction: Double, columns: Int) -> String {
        let inner = max(1, columns - 2)
        let filled = Int((min(max(fraction, 0), 1) * Double(inner)).rounded(.down))
        let head = filled < inner ? ">" : ""
        let blank = String(repeating: " ", count: inner - filled - head.count)
        return "[" + String(repeating: "=", count: filled) + head + blank + "]"
    }
}
