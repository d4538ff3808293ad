// Tables for people.

/// Rows under a heading; all columns except the first are aligned to the right.
struct Table {
    private var rows: [[String]]

    init(_ heading: [String]) { rows = [heading] }

    mutating func add(_ row: [String]) { rows.append(row) }

    /// The table, with one row on each line.
    var text: String {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
        return rows.map { row in
            let cells = row.enumerated().map { column, cell in
                let gap = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + gap : gap + cell
            }
            return cells.joined(separator: "  ")
        }.joined(separator: "\n") + "\n"
    }
}
