// Text for terminals of 80 columns.

/// Lays out the text of the help in columns.
enum TextLayout {
    static let width = 79
    /// The column of an option's description.
    static let column = 25

    /// A term, with its description in a separate column.
    static func entry(_ term: String, _ text: String, column: Int = TextLayout.column) -> String {
        let fits = term.count < column - 1
        let blanks = String(repeating: " ", count: fits ? column - term.count : column)
        return (term + (fits ? "" : "\n") + blanks + text).wrapped(toColumns: width, indentation: column)
    }

    /// Terms with their descriptions, one below the other.
    static func terms(_ terms: [(String, String)], column: Int = 11) -> String {
        terms.map { entry("  " + $0, $1, column: column) }.joined(separator: "\n")
    }
}

extension Option {
    /// The option's lines in the help.
    var helpEntry: String {
        let names = (short.map { "-\($0), " } ?? "    ") + "--\(name)" + valueUsage
        return TextLayout.entry("  " + names, detail)
    }
}

extension [Option] {
    /// The options under the headings of their groups.
    var helpByGroup: String {
        Option.Group.allCases.compactMap { group in
            let members = filter { $0.group == group }
            return members.isEmpty ? nil : ([group.rawValue + ":"] + members.map(\.helpEntry)).joined(separator: "\n")
        }.joined(separator: "\n\n")
    }
}
