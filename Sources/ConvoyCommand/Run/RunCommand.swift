import Convoy
import ConvoyHTTPFile
import Foundation

struct RunCommand {
    let options: RunOptions

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

enum PlanText {
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

struct RunInput {
    let file: HTTPFile
    let surroundings: Surroundings
    let directory: URL

    private static let limitBytes = 64 << 20

    init(_ options: RunOptions) throws(UsageError) {
        let bytes = try OptionValues.content(of: options.file, limitBytes: Self.limitBytes)
        guard let text = String(data: bytes, encoding: .utf8) else {
            throw UsageError("\(options.file) is not UTF-8")
        }
        file = HTTPFileReader.read(text)
        directory =
            FileType.of(options.file) != S_IFREG
            ? URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
            : URL(filePath: options.file, directoryHint: .notDirectory).absoluteURL.deletingLastPathComponent()
        surroundings = Self.surroundings(of: options, directory)
    }

    private static func surroundings(of options: RunOptions, _ directory: URL) -> Surroundings {
        var surroundings = Surroundings()
        surroundings.given = options.variables
        surroundings.environmentName = options.environment
        surroundings.processEnvironment = ProcessInfo.processInfo.environment
        surroundings.skipsScripts = options.skipsScripts
        let files = ["http-client.env.json", "http-client.private.env.json"]
        for (name, file) in nearest(files, from: directory) {
            if let data = try? Data(contentsOf: file) {
                surroundings.environments.add(Array(data), file: file.path, isSecret: name == files[1])
            }
        }
        // Without `--env`, an environment is used if the files define only one.
        let names = surroundings.environments.names
        if options.environment == nil, names.count == 1 { surroundings.environmentName = names[0] }
        let dotNames = (surroundings.environmentName.map { [".env.\($0)"] } ?? []) + [".env"]
        if let (_, file) = nearest(dotNames, from: directory).first, let data = try? Data(contentsOf: file) {
            surroundings.dotEnvironment = DotEnvironment.read(String(decoding: data, as: UTF8.self))
        }
        surroundings.readFile = { path throws(Unreadable) in
            if let reason = defect(of: path, in: directory) { throw Unreadable(reason: reason) }
            return try bytes(
                of: url(of: path, in: directory), unreadable: "it could not be read",
                tooLarge: "it is larger than 64 MiB, which is possible only without variables: < \(path)")
        }
        surroundings.defectOfFile = { defect(of: $0, in: directory) }
        return surroundings
    }

    static func bytes(of file: URL, unreadable: String, tooLarge: String) throws(Unreadable) -> [UInt8] {
        guard let data = try? Data(contentsOf: file, options: .mappedIfSafe) else {
            throw Unreadable(reason: unreadable)
        }
        guard data.count <= limitBytes else { throw Unreadable(reason: tooLarge) }
        return Array(data)
    }

    // Only directories of the same Git repository are searched, because files above may belong to other users.
    private static func nearest(_ names: [String], from directory: URL) -> [(name: String, file: URL)] {
        var directories = [directory.standardizedFileURL]
        while let last = directories.last, access(last.appending(path: ".git").path, F_OK) != 0 {
            let above = last.deletingLastPathComponent().standardizedFileURL
            guard above.path != last.path, !above.path.hasSuffix("..") else {
                directories = [directory]
                break
            }
            directories.append(above)
        }
        for directory in directories {
            let files = names.map { ($0, directory.appending(path: $0, directoryHint: .notDirectory)) }
                .filter { access($0.1.path, R_OK) == 0 }
            if !files.isEmpty { return files }
        }
        return []
    }

    static func url(of path: String, in directory: URL) -> URL {
        let home = ProcessInfo.processInfo.environment["HOME"] ?? "/"
        let full = path.hasPrefix("~/") ? home + path.dropFirst() : path
        return URL(filePath: full, directoryHint: .notDirectory, relativeTo: directory).absoluteURL
    }

    private static func defect(of path: String, in directory: URL) -> String? {
        let file = url(of: path, in: directory).path
        do throws(UsageError) { _ = try OptionValues.readableFile(file) } catch {
            return error.message.split(separator: ": ").last.map(String.init) ?? error.message
        }
        // Reading a pipe could block, and a device may have no end.
        return FileType.of(file) == S_IFREG ? nil : "it is not a file"
    }
}
