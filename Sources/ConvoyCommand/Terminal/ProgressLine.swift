import Foundation

struct ProgressLine: Equatable {
    var label: String
    var shortLabels: [String] = []
    var fraction: Double?
    var sizes = ""
    var details: [String]

    // The minimum of the label gets space first, then the percentage, the details, the sizes and the bar.
    func text(columns: Int, labelColumns: Int? = nil) -> String {
        let leastLabel = labelColumns ?? Self.leastLabelColumns(of: columns)
        var rest = columns - leastLabel
        func taken(_ text: String) -> String? {
            guard text.columnCount <= rest else { return nil }
            rest -= text.columnCount
            return text
        }
        let percent = fraction.map { Self.percent($0) }
        let head = taken("  " + (percent ?? "").padded(toColumns: 5)) ?? ""
        var tail = ""
        for detail in details {
            guard let text = taken("  " + detail) else { break }
            tail += text
        }
        tail = head + (sizes.isEmpty ? "" : taken("  " + sizes) ?? "") + tail
        guard rest >= 10 else { return finished(fittedLabel(leastLabel + max(0, rest)) + tail, columns) }
        let bar = min(rest - 2, 32, (leastLabel + rest - 2) / 2)
        let drawn = fraction.map { Self.bar($0, columns: bar) } ?? String(repeating: " ", count: bar)
        return finished(fittedLabel(leastLabel + rest - 2 - bar) + "  " + drawn + tail, columns)
    }

    private func fittedLabel(_ columns: Int) -> String {
        let label = ([label] + shortLabels).first { $0.columnCount <= columns } ?? shortLabels.last ?? label
        return label.fitted(toColumns: columns)
    }

    static func leastLabelColumns(of columns: Int) -> Int { max(8, min(30, columns / 4)) }

    static func percent(_ fraction: Double) -> String {
        String(Int((min(max(fraction, 0), 1) * 100).rounded(.down))).padded(toColumns: 3) + " %"
    }

    private func finished(_ text: String, _ columns: Int) -> String {
        var text = text.clipped(toColumns: columns)
        while text.last == " " { text.removeLast() }
        return text
    }

    static func bar(_ fraction: Double, columns: Int) -> String {
        let inner = max(1, columns - 2)
        let filled = Int((min(max(fraction, 0), 1) * Double(inner)).rounded(.down))
        let head = filled < inner ? ">" : ""
        let blank = String(repeating: " ", count: inner - filled - head.count)
        return "[" + String(repeating: "=", count: filled) + head + blank + "]"
    }
}
