// Prints the measurements: a table for people, or one JSON object a line.
import ArgumentParser
import Foundation

/// The report of a command at its end.
struct Report {
    let isJSON: Bool
    private let measurements: [Measurement]

    init(_ measurements: [Measurement], isJSON: Bool) {
        self.measurements = measurements
        self.isJSON = isJSON
    }

    /// Prints the measurements and their errors.
    ///
    /// - Parameter table: makes the table; not called for JSON.
    /// - Throws: `ExitCode.failure` if a measurement has errors.
    func print(heading: String, table: () -> Table) throws {
        if isJSON {
            for measurement in measurements { write(try measurement.line() + "\n", to: .output) }
        } else {
            write("\(heading)\n\n\(table().text)\n", to: .output)
        }
        let failed = measurements.filter { $0.errors > 0 }
        for measurement in failed {
            let what = "\(measurement.benchmark) \(measurement.subject) \(measurement.count)"
            let first = measurement.firstError ?? "unknown"
            write("error: \(what): \(measurement.errors) error(s), first: \(first)\n", to: .error)
        }
        if !failed.isEmpty { throw ExitCode.failure }
    }
}

/// The ratio of two values, or a dash.
func ratio(_ value: Double?, to other: Double?) -> String {
    guard let value, let other, other > 0, value > 0 else { return "-" }
    return String(format: "%.2fx", value / other)
}
