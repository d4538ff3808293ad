import Convoy

package struct Row: Sendable, Equatable {
    package var line: Int
    package var values: [String: String]
    package var text: String

    package init(line: Int, values: [String: String] = [:], text: String = "") {
        (self.line, self.values, self.text) = (line, values, text)
    }
}

/// Only the incomplete row, or a complete JSON array, is stored.
package struct RowReader: Sendable {
    package enum Format: Sendable, Equatable {
        /// The first line determines the separator, for example by `sep=;` as Excel writes it (RFC 4180 otherwise).
        case csv
        case json
    }

    package enum Outcome: Sendable, Equatable {
        case row(Row)
        case broken(line: Int, reason: String)
    }

    private let format: Format
    package private(set) var columns: [String]?
    package private(set) var defect: String?
    private var separator: UInt8?
    private var array: [UInt8]?
    private var elements: [Range<Int>]?
    private var elementCount = 0
    /// The first line's number and the text of a row whose quote is still open; nil if no quote is open.
    private var open: (line: Int, text: String)?

    private static let limitBytes = 1 << 20
    private static let limitBytesOfArray = 64 << 20

    package init(_ format: Format) { self.format = format }

    package mutating func take(_ line: String, at number: Int) -> Outcome? {
        switch format {
        case .csv: return readLine(line, at: number)
        case .json:
            let first = line.utf8.first { !$0.isBlank }
            if array != nil || columns == nil && first == UInt8(ascii: "[") {
                keep(line, at: number)
                return nil
            }
            return first == nil ? nil : readObject(line, at: number)
        }
    }

    package mutating func skip() {
        open = nil
        if array != nil { defect = defect ?? "a line of its array cannot be read" }
    }

    /// The caller calls the method until it returns nil.
    package mutating func finish() -> Outcome? {
        if let array {
            if elements == nil { readElements(array) }
            guard defect == nil, let element = elements?.popLast() else { return nil }
            elementCount += 1
            return readObject(String(decoding: array[element], as: UTF8.self), at: elementCount)
        }
        guard let (line, _) = open else { return nil }
        open = nil
        return .broken(line: line, reason: "its quote is not closed")
    }

    // MARK: JSON

    private static let advice = "write one object in each line, or an array of objects"

    private mutating func readObject(_ text: String, at line: Int) -> Outcome {
        let reason: String
        do throws(JSONReader.Defect) {
            if case .object(let members) = try JSONReader.read(Array(text.utf8)) {
                if columns == nil { columns = members.map(\.name) }
                let values = Dictionary(members.map { ($0.name, $0.value.text) }) { _, last in last }
                return .row(Row(line: line, values: values, text: text))
            }
            reason = "it is not an object"
        } catch { reason = "it is not JSON: \(error.what)" }
        if columns == nil { defect = "line \(line): \(reason); \(Self.advice)" }
        return .broken(line: line, reason: reason)
    }

    private mutating func keep(_ line: String, at number: Int) {
        guard defect == nil else { return }
        array = array ?? [UInt8](repeating: UInt8(ascii: "\n"), count: number - 1)
        array?.append(contentsOf: line.utf8)
        array?.append(UInt8(ascii: "\n"))
        guard let count = array?.count, count > Self.limitBytesOfArray else { return }
        (array, defect) = ([], "it is an array of more than 64 MiB; write one object in each line: jq -c '.[]'")
    }

    private mutating func readElements(_ array: [UInt8]) {
        elements = []
        do throws(JSONReader.Defect) {
            let places = try JSONReader.elements(of: array)
            if let other = places.firstIndex(where: { array[$0.lowerBound] != UInt8(ascii: "{") }) {
                defect = "element \(other + 1) of its array is not an object; write {\"name\": value}"
            } else {
                elements = places.reversed()
            }
        } catch { defect = defect ?? "it is not JSON: \(error.description); \(Self.advice)" }
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
        if columns == nil {
            if separator == nil, text.utf8.count == 5, text.lowercased().hasPrefix("sep=") {
                separator = text.utf8.last
                return nil
            }
            findSeparator(in: text)
        }
        let fields: [String]
        do throws(Unreadable) {
            guard let found = try Self.fields(of: text, separator ?? UInt8(ascii: ",")) else {
                open = (start, text)
                return nil
            }
            fields = found
        } catch {
            if columns == nil { defect = "line \(start): \(error.reason)" }
            return .broken(line: start, reason: error.reason)
        }
        guard let columns else {
            nameColumns(fields)
            return nil
        }
        guard fields.count == columns.count else {
            let values = fields.count == 1 ? "1 value" : "\(fields.count) values"
            return .broken(line: start, reason: "it has \(values) for \(columns.count) columns")
        }
        let values = Dictionary(zip(columns, fields)) { _, last in last }
        return .row(Row(line: start, values: values, text: text))
    }

    private mutating func findSeparator(in line: String) {
        guard separator == nil else { return }
        var (counts, isQuoted) = ([UInt8: Int](), false)
        for byte in line.utf8 {
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if !isQuoted, ",;\t".utf8.contains(byte) { counts[byte, default: 0] += 1 }
        }
        let most = counts.values.max()
        let found = counts.filter { $0.value == most }.keys
        if found.count > 1 {
            defect =
                "its first line does not show whether commas, semicolons or tabs separate the columns; write sep=, above"
        }
        // A name in quotes may have line ends, so the separator may follow in a later line.
        separator = found.first
    }

    private mutating func nameColumns(_ names: [String]) {
        let names = names.map(\.trimmed)
        // Several columns may have no name, for example an index that another program has added.
        let named = names.filter { !$0.isEmpty }
        var reason: String?
        if named.contains(where: { $0.utf8.contains(0x0D) }) {
            reason = "its lines end with CR; write LF: tr '\\r' '\\n'"
        } else if let twice = Dictionary(grouping: named, by: \.self).first(where: { $0.value.count > 1 })?.key {
            reason = "its first line names the column \(twice.shown) twice"
        } else if named.isEmpty {
            reason = "its first line names no columns"
        } else if !named.contains(where: \.isVariableName) {
            reason =
                "its first line has no name of a variable, but \(named[0].shown); separate columns with commas, semicolons or tabs"
        }
        defect = defect ?? reason
        columns = names
    }

    /// The fields of a row; nil if a quote is open at its end.
    private static func fields(of text: String, _ separator: UInt8) throws(Unreadable) -> [String]? {
        let quote = UInt8(ascii: "\"")
        var (fields, bytes) = ([String](), text.utf8[...])
        while true {
            var field: [UInt8] = []
            if bytes.first == quote {
                // Each quote before another one begins a part of the field, and all but the first belong to it.
                while bytes.first == quote {
                    guard let end = bytes.dropFirst().firstIndex(of: quote) else { return nil }
                    field += bytes[..<end]
                    bytes = bytes[end...].dropFirst()
                }
                field.removeFirst()
                guard bytes.isEmpty || bytes.first == separator else {
                    throw Unreadable(reason: "text follows a closing quote")
                }
            } else {
                field += bytes.prefix { $0 != separator }
                bytes = bytes.dropFirst(field.count)
                guard !field.contains(quote) else {
                    throw Unreadable(reason: "a value without quotes around it contains a quote")
                }
            }
            fields.append(String(decoding: field, as: UTF8.self))
            guard bytes.popFirst() != nil else { return fields }
        }
    }
}
