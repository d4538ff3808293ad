// The lines at the bottom of a terminal that are drawn again and again.

/// Knows what is on the screen, and which bytes turn it into something else.
///
/// A value: it writes nothing itself. The cursor rests at the start of the line below the region.
struct LiveRegion {
    static let showCursor = "\u{1B}[?25h"
    private static let hideCursor = "\u{1B}[?25l"

    /// The lines on the screen now.
    private(set) var lines: [String] = []
    private var isCursorHidden = false

    /// The bytes that show these lines instead; as many of them as fit, none of them wrapped.
    mutating func draw(_ newLines: [String], size: Terminal.Size) -> String {
        // The last column stays free: some terminals wrap as soon as it is written.
        let fitting = newLines.prefix(max(0, size.height - 1)).map { $0.clipped(toColumns: max(1, size.width - 1)) }
        guard fitting != lines else { return "" }
        var bytes = isCursorHidden ? "" : Self.hideCursor
        bytes += toTop
        for line in fitting { bytes += line + "\u{1B}[K\n" }
        bytes += "\u{1B}[J"
        isCursorHidden = true
        lines = fitting
        return bytes
    }

    /// The bytes that leave the screen as if there had been no region, the cursor shown.
    mutating func erase() -> String {
        guard isCursorHidden else { return "" }
        defer { self = LiveRegion() }
        return toTop + "\u{1B}[J" + Self.showCursor
    }

    /// The bytes that put permanent text above the region.
    func insert(_ text: String) -> String {
        guard !lines.isEmpty else { return text }
        return toTop + "\u{1B}[J" + text + lines.map { $0 + "\n" }.joined()
    }

    private var toTop: String { lines.isEmpty ? "\r" : "\r\u{1B}[\(lines.count)A" }
}
