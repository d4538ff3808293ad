import Foundation

/// The layers of a target and what each may use, read from a table of the documentation.
///
/// The table has one row for each layer, bottom first: its name, its contents, and what it may use.
struct LayerTable {
    struct Layer {
        let name: String
        /// The names of the layers that this layer may use.
        let uses: Set<String>
        /// Whether this layer may use all layers above it in the table, except those named after `all above`.
        let isUnbounded: Bool
    }

    private(set) var layers: [Layer] = []
    /// Errors in the table itself.
    private(set) var mistakes: [String] = []

    /// - Parameter page: the page's text. `all above` in the third column means every layer of the rows above, except
    ///   the layers named after `all above`.
    init(_ page: String) {
        for row in page.split(separator: "\n") where row.hasPrefix("| `") {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 3, let name = Self.names(in: cells[0]).first else {
                mistakes.append("a row without three columns: \(row)")
                continue
            }
            let above = Set(layers.map(\.name))
            let named = Set(Self.names(in: cells[2]))
            for unknown in named.subtracting(above).sorted() {
                mistakes.append("\(name) may use \(unknown), which is no layer above it in the table")
            }
            if above.contains(name) { mistakes.append("\(name) is there twice") }
            let isUnbounded = cells[2].hasPrefix("all above")
            layers.append(
                Layer(name: name, uses: isUnbounded ? above.subtracting(named) : named, isUnbounded: isUnbounded))
        }
        if layers.isEmpty { mistakes.append("there is no table of layers") }
    }

    func layer(_ name: String) -> Layer? { layers.first { $0.name == name } }

    /// The words in backquotes.
    private static func names(in cell: String) -> [String] {
        cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }
            .map { String($0.element) }
    }
}
