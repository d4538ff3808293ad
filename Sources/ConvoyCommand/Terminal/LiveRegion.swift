// The lines at the bottom of a terminal that are redrawn.

/// Tracks what is on the screen, and computes the bytes that change it.
///
/// It writes nothing itself. The cursor stays at the start of the line below the region.
struct LiveRegion {
    static let showCursor = "\u{1B}[?25h"
    private static let hideCursor = "\u{1B}[?25l"
    /// Clears the rest of the row.
    private static let endLine = "\u{1B}[K\n"

    /// The lines on the screen.
    private(set) var lines: [String] = []
    private var isCursorHidden = false

    /// The bytes that replace the lines by these.
    ///
    /// Only those that fit are shown, and none is wrapped.
    ///
    /// - Parameter above: permanent text above them, including line ends.
    mutating func draw(_ newLines: [String], size: Terminal.Size, above: String = "") -> String {
        // The last column stays free, because some terminals wrap as soon as it is written.
        let fitting = newLines.prefix(max(0, size.height - 1)).map { $0.clipped(toColumns: max(1, size.width - 1)) }
        guard fitting != lines || !above.isEmpty else { return "" }
        let start = (isCursorHidden ? "" : Self.hideCursor) + toTop(columns: size.width)
        isCursorHidden = true
        lines = fitting
        return start + cleared(above) + below
    }

    /// The bytes that remove the region and show the cursor.
    ///
    /// - Parameter columns: the current width of the terminal; nil when it has not changed.
    mutating func erase(columns: Int? = nil) -> String {
        guard isCursorHidden else { return "" }
        defer { self = LiveRegion() }
        let top = toTop(columns: columns)
        let blank = String(repeating: Self.endLine, count: rowCount(columns: columns))
        // Below the lines there may be an echo of the terminal, such as ^C.
        return top + blank + "\u{1B}[J" + top + Self.showCursor
    }

    /// The bytes that put permanent text above the region.
    func insert(_ text: String, columns: Int? = nil) -> String {
        guard !lines.isEmpty else { return text }
        return toTop(columns: columns) + cleared(text) + below
    }

    /// The lines, with everything below them cleared.
    private var below: String { lines.map { $0 + Self.endLine }.joined() + "\u{1B}[J" }

    /// Clears row by row, because some terminals, for example tmux, save text that is cleared from the top of the
    /// screen in their history.
    private func cleared(_ text: String) -> String { text.replacing("\n", with: Self.endLine) }

    private func toTop(columns: Int?) -> String {
        let rows = rowCount(columns: columns)
        return rows == 0 ? "\r" : "\r\u{1B}[\(rows)A"
    }

    /// The number of rows.
    ///
    /// A terminal that has become narrower has wrapped the lines.
    private func rowCount(columns: Int?) -> Int {
        guard let columns, columns > 0 else { return lines.count }
        return lines.reduce(0) { $0 + max(1, ($1.columnCount + columns - 1) / columns) }
    }
}
