// Files with events of --json.
import Foundation

/// Reads the events of a file, which may be truncated if a run was killed.
enum EventFile {
    private static let newline = UInt8(ascii: "\n")
    /// Events that reports do not use.
    ///
    /// They are skipped without parsing.
    private static let uninteresting = ["progress", "redirect", "retry"].map { Data("\"event\":\"\($0)\"".utf8) }

    /// Adds the events of a file to a report.
    ///
    /// Unreadable lines are mentioned in the report's remarks and skipped.
    static func read(_ data: Data, name: String, into report: inout Report) {
        report.begin(name)
        let decoder = JSONDecoder()
        var (number, eventCount, broken) = (0, 0, [Int]())
        var rest = data[...]
        while !rest.isEmpty {
            let end = rest.firstIndex(of: newline)
            let line = rest[..<(end ?? rest.endIndex)]
            rest = end.map { rest[($0 + 1)...] } ?? rest[rest.endIndex...]
            number += 1
            let isBlank = line.allSatisfy { [0x20, 0x09, 0x0D].contains($0) }
            if isBlank || uninteresting.contains(where: { line.range(of: $0) != nil }) { continue }
            if let event = try? decoder.decode(EventLine.self, from: line) {
                report.add(event)
                eventCount += 1
            } else if end == nil {
                report.note("\(name): the last line is cut off, and was left out; the run may have been killed")
            } else {
                broken.append(number)
            }
        }
        if let first = broken.first {
            let others = broken.count > 1 ? ", and \(broken.count - 1) more" : ""
            report.note("\(name): line \(first)\(others) is no event of --json, and was left out")
        }
        if eventCount == 0 { report.note("\(name): there are no events in it; write them with convoy run --json") }
    }
}
