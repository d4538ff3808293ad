// Files with events of --json.
import Foundation

/// Reads the events of a file, which may be truncated if a run was killed.
enum EventFile {
    /// The events that a report does not use.
    private static let uninteresting: Set = ["progress", "redirect", "retry"]

    /// Adds the events of a file to a report.
    ///
    /// Unreadable lines are mentioned in the report's remarks and skipped.
    ///
    /// - Returns: whether the file contains events.
    @discardableResult
    static func read(_ data: Data, name: String, into report: inout Report) -> Bool {
        report.begin(name)
        var (number, eventCount, broken) = (0, 0, [Int]())
        data.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count {
                let rest = bytes[start...]
                let end = rest.firstIndex(of: 0x0A)
                let line = [UInt8](rest[..<(end ?? rest.endIndex)])
                start += line.count + 1
                number += 1
                if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { continue }
                if let event = EventLine(line) {
                    eventCount += 1
                    if !uninteresting.contains(event.event) { report.add(event) }
                } else if end == nil {
                    report.note("\(name): the last line is incomplete, and was skipped; the run may have been killed")
                } else {
                    broken.append(number)
                }
            }
        }
        if let first = broken.first {
            report.note(
                broken.count == 1
                    ? "\(name): line \(first) is not an event of --json, and was skipped"
                    : "\(name): \(broken.count) lines, the first of them line \(first), are not events of --json, and "
                        + "were skipped")
        }
        if eventCount == 0 { report.note("\(name) contains no events; write them with convoy run --json") }
        return eventCount > 0
    }
}
