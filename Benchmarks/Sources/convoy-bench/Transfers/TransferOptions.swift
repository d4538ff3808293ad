// The common parts of `download` and `upload`: options, directory, table.
import ArgumentParser
import Foundation

/// The destination of a download's body.
enum Consumer: String, Codable, CaseIterable, ExpressibleByArgument {
    /// A file.
    case disk
    /// A reader with a limited rate.
    case slow
    /// A reader without a limit, measured for comparison with the slow reader.
    case fast
}

/// Options of `download` and `upload`.
struct TransferOptions: ParsableArguments {
    @OptionGroup var server: ServerOptions

    @Option(help: "Where the files are made; the system's temporary directory by default.")
    var directory: String?

    @Option(help: "Convoy's transport: \(TransportName.allCases.map(\.rawValue).joined(separator: " or ")).")
    var transport = TransportName.automatic

    @Option(help: "Who is measured, separated by commas; everybody who can by default.")
    var subjects: CommaList<TransferSubject>?

    /// The subjects that can run on this machine, and a note on programs that are not installed.
    ///
    /// - Throws: if an option names a subject that is not possible.
    func installed(among possible: [TransferSubject]) throws -> (subjects: [TransferSubject], note: String?) {
        let wanted = subjects?.elements ?? possible
        if let other = wanted.first(where: { !possible.contains($0) }) {
            throw ValidationError("\(other.rawValue) cannot do this; leave it out of --subjects.")
        }
        let missing = wanted.filter { $0.isProgram && ProgramRun.path(of: $0.rawValue) == nil }
        let names = missing.map(\.rawValue).joined(separator: ", ")
        return (wanted.filter { !missing.contains($0) }, missing.isEmpty ? nil : "not installed, left out: \(names)")
    }

    /// Calls `work` with a new directory, which is removed afterwards.
    func withDirectory<Value>(_ work: (URL) async throws -> Value) async throws -> Value {
        let parent = directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        let place = parent.appendingPathComponent("convoy-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: place) }
        return try await work(place)
    }
}

/// Prints the measurements of transfers.
struct TransferReport {
    let results: [Measurement]
    let server: String
    let note: String?

    init(_ results: [Measurement], server: String, note: String?) {
        self.results = results.map { result in
            var result = result
            result.server = server
            return result
        }
        (self.server, self.note) = (server, note)
    }

    /// Prints the measurements; if the output is JSON, the note goes to standard error.
    ///
    /// - Throws: `ExitCode.failure` if a measurement has errors.
    func print(_ heading: String, common: CommonOptions) throws {
        var lines = ["\(heading), median of \(common.rounds) round(s)"]
        lines.append("server: \(ServerOptions.describe(server))")
        lines.append("over idle: peak RSS less the RSS right before; a program has nothing before, see its peak RSS")
        if let note {
            lines.append(note)
            if common.json { write(note + "\n", to: .error) }
        }
        try Report(results, isJSON: common.json).print(heading: lines.joined(separator: "\n")) { table }
    }

    private var table: Table {
        let readers = results.contains { $0.consumer == Consumer.slow.rawValue }
        let peers = readers ? [] : results.filter { $0.subject != TransferSubject.convoy.rawValue }
        var table = Table(
            ["subject"] + (readers ? ["consumer", "MB read"] : [])
                + ["seconds", "MB/s", "CPU ns/B", "over idle", "peak RSS", "errors"]
                + (readers ? ["over idle : fast"] : peers.map { "MB/s : \($0.subject)" }))
        for result in results {
            let fast = results.first { $0.subject == result.subject && $0.consumer == Consumer.fast.rawValue }
            table.add(
                [result.subject] + (readers ? [result.consumer ?? "-", megabytes(result.bytes.map(Double.init))] : [])
                    + [
                        result.seconds?.figure ?? "-", megabytes(result.bytesPerSecond),
                        result.cpuNanosecondsPerByte?.figure ?? "-", result.peakRSSGrowthBytes?.mebibytes ?? "-",
                        result.peakRSSBytes?.mebibytes ?? "-", result.errors.figure,
                    ]
                    + (readers
                        ? [
                            ratio(
                                result.peakRSSGrowthBytes.map(Double.init),
                                to: fast?.peakRSSGrowthBytes.map(Double.init))
                        ] : peers.map { ratio(result.bytesPerSecond, to: $0.bytesPerSecond) }))
        }
        return table
    }

    private func megabytes(_ bytes: Double?) -> String { bytes.map { ($0 / 1e6).figure } ?? "-" }
}
