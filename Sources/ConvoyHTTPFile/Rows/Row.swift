// Rows of data. The requests of a file are sent for each row.
import Convoy

/// One row: a value for each of its columns.
package struct Row: Sendable, Equatable {
    /// The number of the row's first line, from 1.
    package var line: Int
    package var values: [String: String]
    /// The row as written in the file.
    package var text: String

    package init(line: Int, values: [String: String] = [:], text: String = "") {
        (self.line, self.values, self.text) = (line, values, text)
    }
}

/// Reads rows line by line.
///
/// The reader stores only the incomplete row.
package struct RowReader: Sendable {
    package enum Format: Sendable, Equatable {
        /// Comma-separated values (RFC 4180), whose first line names the columns.
        ///
        /// Quoted values may contain commas, quotes and line ends.
        case csv
        /// One object in each line.
        ///
        /// Values other than texts and numbers remain JSON.
        case jsonLines
    }

    package enum Outcome: Sendable, Equatable {
        case row(Row)
        case broken(line: Int, reason: String)
    }

    private let format: Format
    /// The names of the columns: the first line of CSV, or the names of the first JSON object; nil until known.
    package private(set) var columns: [String]?
    /// Why the complete file is unusable, because its first line is not a list of names; nil if it is usable.
    package private(set) var defect: String?
    /// The first line's number and the text of a row whose quote is still open; nil if no quote is open.
    private var open: (line: Int, text: String)?

    /// The maximum size in bytes of a row that spans several lines.
    private static let limitBytes = 1 << 20

    package init(_ format: Format) { self.format = format }

    /// Reads the next line, without its line end.
    ///
    /// Returns nil if the line does not complete a row.
    package mutating func take(_ line: String, at number: Int) -> Outcome? {
        switch format {
        case .jsonLines: line.utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 } ? nil : readObject(line, at: number)
        case .csv: readLine(line, at: number)
        }
    }

    /// Discards the incomplete row, because one of its lines is unreadable.
    package mutating func skip() { open = nil }

    /// Ends reading at the end of the file.
    ///
    /// Returns the error of a row whose quote is still open; nil if there is none.
    package mutating func finish() -> Outcome? {
        guard let (line, _) = open else { return nil }
        open = nil
        return .broken(line: line, reason: "its quote is not closed")
    }

    // MARK: JSON

    private mutating func readObject(_ text: String, at line: Int) -> Outcome {
        let value: JSONValue
        do throws(JSONReader.Defect) { value = try JSONReader.read(Array(text.utf8)) } catch {
            return .broken(line: line, reason: "it is not JSON: \(error.what)")
        }
        guard case .object(let members) = value else { return .broken(line: line, reason: "it is not an object") }
        if columns == nil { columns = members.map(\.name) }
        let values = Dictionary(members.map { ($0.name, $0.value.text) }) { _, last in last }
        return .row(Row(line: line, values: values, text: text))
    }

    // MARK: CSV

    private mutating func readLine(_ line: String, at number: Int) -> Outcome? {
        if open == nil, line.utf8.isEmpty { return nil }
        var (start, text) = (number, line)
        if var before = open {
            open = nil
            before.text += "\n" + line
            guard before.text.utf8.count <= Self.limitBytes else {
                return .broken(line: before.line, reason: "its quote is not closed within a megabyte")
            }
            // An even number of quotes does not close the open quote, so the row is not parsed again for this line.
            if line.utf8.count(where: { $0 == UInt8(ascii: "\"") }).isMultiple(of: 2) {
                open = before
                return nil
            }
            (start, text) = before
        }
        switch Self.fields(of: text) {
        case .open:
            open = (start, text)
            return nil
        case .broken(let reason):
            if columns == nil { defect = "line \(start): \(reason)" }
            return .broken(line: start, reason: reason)
        case .fields(let fields):
            guard let columns else {
                nameColumns(fields)
                return nil
            }
            guard fields.count == columns.count else {
                let values = fields.count == 1 ? "1 value" : "\(fields.count) values"
                return .broken(
                    line: start, reason: "it has \(values) for \(columns.count) columns")
            }
            let values = Dictionary(zip(columns, fields)) { _, last in last }
            return .row(Row(line: start, values: values, text: text))
        }
    }

    private mutating func nameColumns(_ names: [String]) {
        let names = names.map(\.trimmed)
        // Several columns may have no name, for example an index that another program has added.
        let named = names.filter { !$0.isEmpty }
        if let twice = Dictionary(grouping: named, by: \.self).first(where: { $0.value.count > 1 })?.key {
            defect = "its first line names the column \(twice.shown) twice"
        } else if named.isEmpty {
            defect = "its first line names no columns"
        }
        columns = names
    }

    private enum Fields {
        case fields([String])
        /// A quote is open, so the next line belongs to the row.
        case open
        case broken(String)
    }

    private static func fields(of text: String) -> Fields {
        let (quote, comma) = (UInt8(ascii: "\""), UInt8(ascii: ","))
        var fields: [String] = []
        var field: [UInt8] = []
        var bytes = text.utf8[...]
        while true {
            if bytes.first == quote {
                bytes.removeFirst()
                while true {
                    guard let next = bytes.popFirst() else { return .open }
                    guard next == quote else {
                        field.append(next)
                        continue
                    }
                    guard bytes.first == quote else { break }
                    bytes.removeFirst()
                    field.append(quote)
                }
                guard bytes.isEmpty || bytes.first == comma else { return .broken("text follows a closing quote") }
            } else {
                while let next = bytes.first, next != comma {
                    guard next != quote else { return .broken("a value without quotes around it contains a quote") }
                    field.append(next)
                    bytes.removeFirst()
                }
            }
            fields.append(String(decoding: field, as: UTF8.self))
            field.removeAll(keepingCapacity: true)
            guard bytes.popFirst() != nil else { return .fields(fields) }
        }
    }
}
