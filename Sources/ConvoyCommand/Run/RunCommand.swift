// `convoy run`: reads and plans a file, and sends its requests if there are no errors.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Runs the subcommand `run`.
struct RunCommand {
    let options: RunOptions

    /// - Throws: the reason, if the run cannot start. No request was sent then.
    func run(_ interruption: Interruption) async throws(UsageError) -> ExitStatus {
        let input = try RunInput(options)
        let console = Console(allowsLive: options.allowsLive, isJSON: options.fetch.isJSON)
        interruption.watch(console)
        let journal =
            options.isDryRun ? nil : try options.done.map { (path) throws(UsageError) in try RowJournal(path) }
        let rows = try await RowSource(options, journal: journal)
        var surroundings = input.surroundings
        surroundings.columns = Set(rows.columns)
        if let twice = rows.columns.first(where: { options.variables[$0] != nil }) {
            throw UsageError("--variable \(twice) is also a column of \(options.each ?? ""); remove one of them")
        }
        let plan = RunPlan(input.file, surroundings, options.wishes)
        for hint in plan.hints { console.warn("\(options.file):\(hint)") }
        guard plan.problems.isEmpty else { return tell(plan.problems, console) }
        for request in plan.leftOut { console.warn("\(options.file): \(request.label) is skipped: \(request.reason)") }
        guard !plan.requests.isEmpty else {
            throw UsageError("\(options.file) contains no request that can be sent; write GET https://example.com")
        }
        let names = plan.requests.flatMap { [$0.request.name?.text, $0.request.title?.text] }
        if let name = options.printed.first(where: { !names.contains($0) }) {
            throw UsageError("--output: no request of this run is called \(name)")
        }
        if options.isDryRun {
            for line in PlanText.lines(plan) { console.printLine(line) }
            return console.status(after: plan.leftOut.isEmpty ? .success : .failure)
        }
        let directory = options.directory.map { URL(filePath: $0, directoryHint: .isDirectory).absoluteURL }
        if plan.requests.contains(where: { $0.output != nil }) {
            try FetchCommand.check(directory: (directory ?? input.directory).path)
        }
        let setup = try FetchSetup(options.fetch, title: "convoy run \(options.file)", console: console) {
            interruption.interrupt(.outputClosed)
        }
        let run = GraphRun(
            options: options, plan: plan, surroundings: surroundings, rows: rows,
            sourceDirectory: input.directory, outputDirectory: directory ?? input.directory, setup: setup,
            console: console, interruption: interruption)
        return console.status(after: setup.finish(await run.run()))
    }

    private func tell(_ problems: [Problem], _ console: Console) -> ExitStatus {
        for problem in problems {
            let file = problem.file == nil ? "\(options.file):" : ""
            console.printError("convoy: \(file)\(problem)")
        }
        let mistakes = Figures.count(problems.count, "problem")
        let skipped =
            problems.contains { $0.kind != .mistake } ? "; --skip-scripts skips the requests that need scripts" : ""
        console.printError("convoy: \(mistakes) in \(options.file), so no request was sent\(skipped)")
        return .usage
    }
}

/// A plan as text.
enum PlanText {
    /// A line for each request in a valid order: number, method, URL, name, and dependencies.
    static func lines(_ plan: RunPlan) -> [String] {
        plan.requests.enumerated().map { place, request in
            var line = "\(place + 1)  \(request.method) \(request.shownTarget)"
            if request.label != "\(request.method) \(request.shownTarget)" { line += "  (\(request.label))" }
            if !request.needs.isEmpty { line += "  needs \(numbers(request.needs))" }
            if !request.follows.isEmpty { line += "  after \(numbers(request.follows))" }
            return line
        }
    }

    private static func numbers(_ places: [Int]) -> String {
        let shown = places.prefix(12).map { String($0 + 1) }.joined(separator: ", ")
        return places.count > 12 ? "\(shown) and \(places.count - 12) more" : shown
    }
}
