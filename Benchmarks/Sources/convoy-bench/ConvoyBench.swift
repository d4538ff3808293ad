// The command, with a subcommand for each benchmark.
import ArgumentParser
import Foundation

/// `convoy-bench`: measures Convoy and its peers in the same run.
struct ConvoyBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "convoy-bench",
        abstract: "Measures Convoy beside its peers, each case in a process of its own.",
        discussion: """
            Every figure is the median of the rounds. Errors are counted, printed and make the exit status 1. Servers run \
            on the same machine and share its cores: compare what stands in one table, not tables of different machines.

            With --json each line is an object, one for each row of the table. Keys that do not apply are absent: \
            \(Measurement.CodingKeys.allCases.map(\.rawValue).joined(separator: ", ")).
            """,
        subcommands: [
            RequestsCommand.self, HTTPSCommand.self, CostCommand.self, QueueCommand.self, ChainCommand.self,
            FanoutCommand.self, MillionCommand.self, DownloadCommand.self, UploadCommand.self, DurableCommand.self,
            CacheCommand.self,
            CaseCommand.self, ServeCommand.self,
        ])
}

@main
enum Main {
    static func main() async {
        do {
            var command = try ConvoyBench.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            leave(0)
        } catch {
            let code = ConvoyBench.exitCode(for: error)
            let text = ConvoyBench.fullMessage(for: error)
            if !text.isEmpty { write(text + "\n", to: code.isSuccess ? .output : .error) }
            leave(code.rawValue)
        }
    }
}
