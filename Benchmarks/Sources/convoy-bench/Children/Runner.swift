// Runs cases in child processes, in rounds.
import ArgumentParser
import Foundation

/// Options that every benchmark has.
struct CommonOptions: ParsableArguments {
    @Flag(help: "Print one JSON object a line instead of a table.")
    var json = false

    @Option(help: "How often each case is measured; the median is reported.")
    var rounds = 3

    @Option(help: "How many seconds one case may take before it is ended and counted as an error.")
    var limitSeconds = 120

    func validate() throws {
        if rounds < 1 { throw ValidationError("--rounds must be at least 1.") }
        if limitSeconds < 1 { throw ValidationError("--limit-seconds must be at least 1.") }
    }
}

/// Measures each case in a separate child process.
///
/// So no case inherits heap or peak memory from another.
struct Runner {
    let options: CommonOptions

    /// The median of each case, in the order of `specs`.
    ///
    /// Each round begins one case later, so that no case has the same position in every round. A reversed order would
    /// not work: the last case of a round would be the first of the next, and write to pages that it has just freed.
    ///
    /// - Parameter measure: measures a case once; by default in one child process.
    func run(_ specs: [CaseSpec], measuring measure: ((CaseSpec) throws -> [Measurement])? = nil) -> [Measurement] {
        let measure = measure ?? { try runChild($0) }
        var collected = [[[Measurement]]](repeating: [], count: specs.count)
        var failures = [[String]](repeating: [], count: specs.count)
        for round in 0..<options.rounds {
            for index in specs.indices.map({ ($0 + round) % specs.count }) {
                let title = "round \(round + 1) of \(options.rounds): \(specs[index].title)"
                do {
                    let measurements = try measure(specs[index])
                    collected[index].append(measurements)
                    write("\(title): \(measurements.map(\.summary).joined(separator: "; "))\n", to: .error)
                } catch {
                    failures[index].append("\(error)")
                    write("\(title): error: \(error)\n", to: .error)
                }
            }
        }
        return specs.indices.flatMap { medians(specs[$0], collected[$0], failures[$0]) }
    }

    /// Runs a case in a child process, and returns the measurements that the child prints.
    func runChild(
        _ spec: CaseSpec, under launcher: [String] = [], environment: [String: String] = [:]
    ) throws -> [Measurement] {
        let json = String(decoding: try JSONEncoder().encode(spec), as: UTF8.self)
        let child = try ChildProcess(
            ["case", "--ends-with-parent", json], under: launcher, environment: environment)
        let output = try child.output(withinSeconds: options.limitSeconds)
        let measurements = try output.split(separator: "\n").map { line in
            try JSONDecoder().decode(Measurement.self, from: Data(line.utf8))
        }
        if measurements.isEmpty { throw BenchmarkError("it measured nothing") }
        return measurements
    }

    private func medians(_ spec: CaseSpec, _ rounds: [[Measurement]], _ failures: [String]) -> [Measurement] {
        // A case returns the same kinds of measurements in every round, in the same order.
        let width = rounds.map(\.count).min() ?? 0
        var results = (0..<width).compactMap { column in Measurement.median(rounds.map { $0[column] }) }
        if results.isEmpty { results = [Measurement(spec)] }
        results[0].errors += failures.count
        if results[0].firstError == nil { results[0].firstError = failures.first }
        return results
    }
}

extension Measurement {
    /// The text of the measurement in a progress line.
    fileprivate var summary: String {
        let figure =
            locksPerRequest.map { "\($0.figure) locks, \((allocationsPerRequest ?? 0).figure) allocations" }
            ?? "\((seconds ?? 0).figure) s"
        let what = "\(benchmark) \(figure)"
        return errors == 0 ? what : "\(what), \(errors) error(s): \(firstError ?? "?")"
    }
}
