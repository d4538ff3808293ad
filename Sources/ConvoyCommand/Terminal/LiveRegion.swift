// The lines at the bottom of a terminal that are redrawn.

/// Tracks the lines on the screen, and makes the escape sequences that change them.
///
/// The caller writes the sequences. The cursor stays at the start of the line below the region.
struct LiveRegion {
    static let showCursor = "\u{1B}[?25h"
    private static let hideCursor = "\u{1B}[?25l"
    /// Clears the rest of the row, and moves to the next row.
    private static let endLine = "\u{1B}[K\n"

    /// The lines on the screen.
    private(set) var lines: [String] = []
    private var isCursorHidden = false

    /// The text that replaces the lines on the screen by new lines.
    ///
    /// Lines that do not fit the height are omitted. Lines that do not fit the width are truncated.
    ///
    /// - Parameter above: permanent text to print above the new lines, including line ends.
    mutating func draw(_ newLines: [String], size: Terminal.Size, above: String = "") -> String {
        // The last column stays free, because some terminals wrap as soon as it is filled.
        let fitting = newLines.prefix(max(0, size.height - 1)).map { $0.clipped(toColumns: max(1, size.width - 1)) }
        guard fitting != lines || !above.isEmpty else { return "" }
        let start = (isCursorHidden ? "" : Self.hideCursor) + toTop(columns: size.width)
        isCursorHidden = true
        lines = fitting
        return start + cleared(above) + below
    }

    /// The text that removes the region and shows the cursor.
    ///
    /// - Parameter columns: the current width of the terminal; nil if the width has not changed.
    mutating func erase(columns: Int? = nil) -> String {
        guard isCursorHidden else { return "" }
        defer { self = LiveRegion() }
        let top = toTop(columns: columns)
        let blank = String(repeating: Self.endLine, count: rowCount(columns: columns))
        // The terminal may have echoed a key below the lines, for example ^C.
        return top + blank + "\u{1B}[J" + top + Self.showCursor
    }

    /// The text that prints permanent text above the region.
    func insert(_ text: String, columns: Int? = nil) -> String {
        guard !lines.isEmpty else { return text }
        return toTop(columns: columns) + cleared(text) + below
    }

    /// The text that draws the lines and clears the screen below them.
    private var below: String { lines.map { $0 + Self.endLine }.joined() + "\u{1B}[J" }

    /// The text, with a sequence before each line end that clears the rest of the row.
    ///
    /// Rows are cleared one by one. When a screen is cleared from its top, some terminals, for example tmux, save
    /// its text in their history.
    private func cleared(_ text: String) -> String { text.replacing("\n", with: Self.endLine) }

    private func toTop(columns: Int?) -> String {
        let rows = rowCount(columns: columns)
        return rows == 0 ? "\r" : "\r\u{1B}[\(rows)A"
    }

    /// The number of screen rows that the lines fill.
    ///
    /// A terminal that has become narrower has wrapped long lines.
    private func rowCount(columns: Int?) -> Int {
        guard let columns, columns > 0 else { return lines.count }
        return lines.reduce(0) { $0 + max(1, ($1.columnCount + columns - 1) / columns) }
    }
}
