// The cost of a dependent of a fan-out, and whether the cost depends on the width.
import ArgumentParser
import Foundation

/// `fanout`: one root, many dependents, and one operation that depends on all of these.
struct FanoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout",
        abstract: "Time per dependent of a fan-out, and the same at a tenth of the width.",
        discussion: GrowthReport.discussion)

    @Option(help: "Dependents of the one root; another operation depends on all of them.")
    var width = 100_000

    @OptionGroup var common: CommonOptions

    func validate() throws {
        if width < 20 { throw ValidationError("--width must be at least 20.") }
    }

    func run() async throws {
        try GrowthReport(benchmark: .fanout, size: width, peerSize: width, common: common).run(
            heading: "A root, \(width.figure) dependents and a join, median of \(common.rounds) round(s)")
    }
}
