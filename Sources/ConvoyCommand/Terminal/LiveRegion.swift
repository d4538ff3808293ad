// The lines at the bottom of a terminal that are drawn again and again.

/// Knows what is on the screen, and which bytes turn it into something else.
///
/// A value: it writes nothing itself. The cursor rests at the start of the line below the region.
struct LiveRegion {
    static let showCursor = "\u{1B}[?25h"
    private static let hideCursor = "\u{1B}[?25l"
    /// Clears the rest of the row.
    private static let endLine = "\u{1B}[K\n"

    /// The lines on the screen now.
    private(set) var lines: [String] = []
    private var isCursorHidden = false

    /// The bytes that show these lines instead; as many of them as fit, none of them wrapped.
    ///
    /// - Parameter above: permanent text that goes above them, line ends included.
    mutating func draw(_ newLines: [String], size: Terminal.Size, above: String = "") -> String {
        // The last column stays free: some terminals wrap as soon as it is written.
        let fitting = newLines.prefix(max(0, size.height - 1)).map { $0.clipped(toColumns: max(1, size.width - 1)) }
        guard fitting != lines || !above.isEmpty else { return "" }
        let start = (isCursorHidden ? "" : Self.hideCursor) + toTop(columns: size.width)
        isCursorHidden = true
        lines = fitting
        return start + cleared(above) + below
    }

    /// The bytes that leave the screen as if there had been no region, the cursor shown.
    ///
    /// - Parameter columns: the width of the terminal now; nil when it has not changed.
    mutating func erase(columns: Int? = nil) -> String {
        guard isCursorHidden else { return "" }
        defer { self = LiveRegion() }
        let top = toTop(columns: columns)
        let blank = String(repeating: Self.endLine, count: rowCount(columns: columns))
        // Below them may be what a terminal has echoed: ^C.
        return top + blank + "\u{1B}[J" + top + Self.showCursor
    }

    /// The bytes that put permanent text above the region.
    func insert(_ text: String, columns: Int? = nil) -> String {
        guard !lines.isEmpty else { return text }
        return toTop(columns: columns) + cleared(text) + below
    }

    /// The lines, and nothing below them.
    private var below: String { lines.map { $0 + Self.endLine }.joined() + "\u{1B}[J" }

    /// Row by row: some terminals, tmux for one, keep what is cleared from the top of the screen on in their history.
    private func cleared(_ text: String) -> String { text.replacing("\n", with: Self.endLine) }

    private func toTop(columns: Int?) -> String {
        let rows = rowCount(columns: columns)
        return rows == 0 ? "\r" : "\r\u{1B}[\(rows)A"
    }

    /// A terminal that has become narrower has wrapped the lines: they take more rows than they are.
    private func rowCount(columns: Int?) -> Int {
        guard let columns, columns > 0 else { return lines.count }
        return lines.reduce(0) { $0 + max(1, ($1.columnCount + columns - 1) / columns) }
    }
}
