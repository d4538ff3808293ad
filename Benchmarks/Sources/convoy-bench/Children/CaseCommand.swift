// The hidden subcommand that child processes run.
import ArgumentParser
import Foundation

/// Measures one case in this process and prints its measurements as JSON lines.
struct CaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "case", abstract: "Measures one case in this process, for a profiler too.", shouldDisplay: false)

    @Flag(help: "End when standard input ends.")
    var endsWithParent = false

    @Argument(help: "The case, as JSON.")
    var json: String

    func run() async throws {
        if endsWithParent { ChildProcess.endWithParent() }
        let spec = try JSONDecoder().decode(CaseSpec.self, from: Data(json.utf8))
        for measurement in try await spec.run() { write(try measurement.line() + "\n", to: .output) }
    }
}
