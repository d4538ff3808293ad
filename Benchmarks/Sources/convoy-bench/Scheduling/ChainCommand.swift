// The cost of a link of a chain, and whether the cost depends on the length.
import ArgumentParser
import Foundation

/// `chain`: operations that each depend on the one before.
struct ChainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chain", abstract: "Time per link of a chain, and the same at a tenth of the length.",
        discussion: GrowthReport.discussion)

    /// The maximum length for Foundation's queue.
    ///
    /// That queue visits every waiting operation on every event: a chain of 16,000 links takes half a minute.
    private static let peerLimit = 4_000

    @Option(help: "Links.")
    var length = 100_000

    @OptionGroup var common: CommonOptions

    func validate() throws {
        if length < 20 { throw ValidationError("--length must be at least 20.") }
    }

    func run() async throws {
        let peerLength = min(length, Self.peerLimit)
        try GrowthReport(benchmark: .chain, size: length, peerSize: peerLength, common: common).run(
            heading: """
                A chain of \(length.figure) links, median of \(common.rounds) round(s)
                \(operationQueueSubject) is quadratic: it gets \(peerLength.figure) and is compared by its time per link there
                """)
    }
}
