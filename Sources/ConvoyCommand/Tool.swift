// Finds the subcommand for the arguments.
import Convoy
import Foundation

/// The command.
enum Tool {
    static let version = Version.current

    /// What remains to be run.
    enum Invocation {
        /// Nothing: a text or an error was printed.
        case ended(ExitStatus)
        case fetch(FetchOptions, Interruption)
        case run(RunOptions, Interruption)
        case report(ReportOptions)
        case `import`(ImportOptions)
        case queue(QueueOptions, Interruption)
        case cache(CacheLookup)
        case demo(Interruption)
    }

    private enum Request {
        case text(String)
        case fetch(FetchOptions)
        case run(RunOptions)
        case report(ReportOptions)
        case `import`(ImportOptions)
        case queue(QueueOptions)
        case cache(CacheLookup)
        case demo
    }

    /// Does the work that needs no other thread, and checks the resources for the rest.
    ///
    /// - Parameter arguments: without the program's name.
    /// - Thread: the main thread, before there are others.
    static func prepare(_ arguments: [String], within limits: ProcessLimits) -> Invocation {
        StandardStreams.secure()
        do {
            switch try parse(arguments) {
            case .text(let text):
                let console = Console(allowsLive: false)
                console.printLine(text)
                return .ended(console.status(after: .success))
            case .fetch(let options):
                guard let (options, interruption) = try fitting(options, limits, "fetch") else { return tooFewThreads }
                return .fetch(options, interruption)
            case .run(var options):
                guard let (fetch, interruption) = try fitting(options.fetch, limits, "run") else {
                    return tooFewThreads
                }
                options.fetch = fetch
                return .run(options, interruption)
            case .report(let options): return .report(options)
            case .cache(let lookup): return .cache(lookup)
            case .import(let options): return .import(options)
            case .queue(var options):
                guard let (fetch, interruption) = try fitting(options.fetch, limits, "queue") else {
                    return tooFewThreads
                }
                options.fetch = fetch
                return .queue(options, interruption)
            case .demo:
                _ = try limits.jobs(atMost: 1, for: "demo")
                let interruption = Interruption()
                guard interruption.watchSignals() else { return tooFewThreads }
                let threads = ProcessLimits.freeThreads(atMost: ProcessLimits.demoThreads)
                return threads == ProcessLimits.demoThreads ? .demo(interruption) : tooFewThreads
            }
        } catch {
            return .ended(tell(error))
        }
    }

    /// The options with at most as many requests in flight as threads and descriptors allow; nil if there are too few
    /// for one.
    private static func fitting(
        _ options: FetchOptions, _ limits: ProcessLimits, _ command: String
    ) throws(UsageError) -> (FetchOptions, Interruption)? {
        var options = try options.within(limits, for: command)
        let interruption = Interruption()
        guard interruption.watchSignals() else { return nil }
        let threads = ProcessLimits.freeThreads(atMost: options.mostThreads)
        return options.takeLess(threads: threads) ? (options, interruption) : nil
    }

    /// Runs the prepared invocation.
    static func run(_ invocation: Invocation) async -> ExitStatus {
        switch invocation {
        case .ended(let status): return status
        case .fetch(let options, let interruption):
            do { return try await FetchCommand(options: options).run(interruption) } catch { return tell(error) }
        case .run(let options, let interruption):
            do { return try await RunCommand(options: options).run(interruption) } catch { return tell(error) }
        case .report(let options):
            do { return try ReportCommand(options: options).run() } catch { return tell(error) }
        case .cache(let lookup):
            do { return try CacheCommand.run(lookup) } catch { return tell(error) }
        case .import(let options):
            do { return try ImportCommand(options: options).run() } catch { return tell(error) }
        case .queue(let options, let interruption):
            do { return try await QueueCommand(options: options).run(interruption) } catch { return tell(error) }
        case .demo(let interruption): return await DemoCommand.run(interruption)
        }
    }

    private static func tell(_ error: UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        console.printError("convoy: \(error.message)")
        console.printError(error.hint)
        return .usage
    }

    /// Reports that there are too few threads to run anything.
    private static var tooFewThreads: Invocation {
        Console(allowsLive: false).printError(
            "convoy: there are too few threads for one request: a limit of this user (ulimit -u) or container is reached"
        )
        return .ended(.failure)
    }

    private static func parse(_ arguments: [String]) throws(UsageError) -> Request {
        guard let first = arguments.first else {
            throw UsageError("there is no command and no URL; write convoy URL, to download it")
        }
        if let command = Subcommand(rawValue: first) { return try parse(command, Array(arguments.dropFirst())) }
        switch first {
        case "--help", "-h": return .text(HelpText.tool)
        case "--version", "-V": return .text("convoy \(version)")
        case _ where (first.hasSuffix(".http") || first.hasSuffix(".rest")) && !first.contains("://"):
            return try parse(.run, arguments)
        // An argument that is not a command is a URL to fetch.
        case _ where first.hasPrefix("-") || first.contains(where: { "./:".contains($0) }) || first == "localhost":
            return try parse(.fetch, arguments)
        default:
            let near = Subcommand.allCases.map(\.rawValue).nearest(to: first).map { "; did you mean \($0)?" } ?? ""
            throw UsageError("there is no command \(first.debugDescription)\(near)")
        }
    }

    private static func parse(_ command: Subcommand, _ arguments: [String]) throws(UsageError) -> Request {
        switch command {
        case .fetch:
            let environment = ProcessInfo.processInfo.environment
            guard var options = try FetchOptions(parsing: arguments, environment: environment) else {
                return .text(command.help)
            }
            options.commandLine = ShownCommandLine.text(
                "fetch", arguments, FetchOptions.table + FetchOptions.silentOptions)
            try options.credentials.askForPassword()
            options.applyNoProxy()
            return .fetch(options)
        case .run:
            let environment = ProcessInfo.processInfo.environment
            guard var options = try RunOptions(parsing: arguments, environment: environment) else {
                return .text(command.help)
            }
            options.fetch.commandLine = ShownCommandLine.text("run", arguments, RunOptions.table)
            return .run(options)
        case .report:
            let options = try ReportOptions(parsing: arguments)
            return options.map(Request.report) ?? .text(command.help)
        case .import:
            let options = try ImportOptions(parsing: arguments)
            return options.map(Request.import) ?? .text(command.help)
        case .queue:
            let environment = ProcessInfo.processInfo.environment
            guard var options = try QueueOptions(parsing: arguments, environment: environment) else {
                return .text(command.help)
            }
            try options.fetch.credentials.askForPassword()
            return .queue(options)
        case .cache:
            let environment = ProcessInfo.processInfo.environment
            let lookup = try CacheLookup(parsing: arguments, environment: environment)
            return lookup.map(Request.cache) ?? .text(command.help)
        case .help:
            guard let operands = try command.operands(parsing: arguments) else { return .text(command.help) }
            return .text(try HelpTopic.text(for: operands))
        case .demo:
            guard let operands = try command.operands(parsing: arguments) else { return .text(command.help) }
            if let operand = operands.first {
                throw UsageError("demo takes no arguments, and got \(operand.debugDescription)", command: "demo")
            }
            return .demo
        case .completions:
            guard let operands = try command.operands(parsing: arguments) else { return .text(command.help) }
            return .text(try Shell(parsing: operands).completions)
        }
    }
}
