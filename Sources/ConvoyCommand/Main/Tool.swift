import Convoy
import Foundation

enum Tool {
    enum Invocation {
        case ended(ExitStatus)
        case work(Subcommand, @Sendable () async throws -> ExitStatus)
    }

    // Main thread, before other threads exist. An argument is nil if it is not UTF-8.
    static func prepare(_ arguments: [String?], within limits: ProcessLimits) -> Invocation {
        StandardStreams.secure()
        var command: Subcommand?
        do throws(UsageError) {
            let arguments = try decoded(arguments)
            switch arguments.first {
            case "--help", "-h": return printed(HelpText.tool)
            case "--version", "-V": return printed("convoy \(Version.current)")
            default: break
            }
            let meant = try self.command(of: arguments)
            command = meant
            return try invocation(
                of: meant, Array(arguments.dropFirst(arguments.first == meant.rawValue ? 1 : 0)), limits)
        } catch { return .ended(tell(error, command)) }
    }

    // `CommandLine.arguments` replaces bytes that are not UTF-8, which would change the names of files.
    static func arguments(
        of vector: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, _ count: Int32
    ) -> [String?] {
        (1..<max(1, Int(count))).map { index in vector[index].flatMap { String(validatingCString: $0) } }
    }

    private static func decoded(_ arguments: [String?]) throws(UsageError) -> [String] {
        if let index = arguments.firstIndex(of: nil) {
            throw UsageError(
                "argument \(index + 1) is not UTF-8: write names of files in UTF-8, and read other bytes from a file, "
                    + "for example with --data-binary @FILE")
        }
        return arguments.compactMap(\.self)
    }

    static func run(_ invocation: Invocation) async -> ExitStatus {
        switch invocation {
        case .ended(let status): return status
        case .work(let command, let work): do { return try await work() } catch { return tell(error, command) }
        }
    }

    private static func tell(_ error: any Error, _ command: Subcommand?) -> ExitStatus {
        let console = Console(allowsLive: false)
        console.printError("convoy: \((error as? UsageError)?.message ?? "\(error)")")
        console.printError("Try 'convoy \(command.map { $0.rawValue + " " } ?? "")--help'.")
        return .usage
    }

    private static func printed(_ text: String) -> Invocation {
        let console = Console(allowsLive: false)
        console.printLine(text)
        return .ended(console.status(after: .success))
    }

    private static var tooFewThreads: Invocation {
        Console(allowsLive: false).printError(
            "convoy: no thread could be created for a request: raise the thread limit of the user (ulimit -u) or container"
        )
        return .ended(.failure)
    }

    private static func command(of arguments: [String]) throws(UsageError) -> Subcommand {
        guard let first = arguments.first else {
            throw UsageError("a command or a URL is missing; write convoy URL to download it")
        }
        if let command = Subcommand(rawValue: first) { return command }
        if first.hasSuffix(".http") || first.hasSuffix(".rest"), !first.contains("://") { return .run }
        // Without a subcommand, options and URLs belong to `fetch`.
        if first.hasPrefix("-") || first.contains(where: { "./:".contains($0) }) || first == "localhost" {
            return .fetch
        }
        let near = Subcommand.allCases.map(\.rawValue).nearest(to: first).map { "; did you mean \($0)?" } ?? ""
        throw UsageError("unknown command \(first.debugDescription)\(near)")
    }

    private static func invocation(
        of command: Subcommand, _ arguments: [String], _ limits: ProcessLimits
    ) throws(UsageError) -> Invocation {
        let environment = ProcessInfo.processInfo.environment
        let help = { printed(command.help) }
        switch command {
        case .fetch:
            guard var options = try FetchOptions(parsing: arguments, environment: environment) else { return help() }
            try options.credentials.askForPassword()
            options.applyNoProxy()
            return try sending(options, \.self, limits, command) { try await FetchCommand(options: $0).run($1) }
        case .run:
            guard let options = try RunOptions(parsing: arguments, environment: environment) else { return help() }
            return try sending(options, \.fetch, limits, command) { try await RunCommand(options: $0).run($1) }
        case .queue:
            guard var options = try QueueOptions(parsing: arguments, environment: environment) else { return help() }
            try options.fetch.credentials.askForPassword()
            return try sending(options, \.fetch, limits, command) { try await QueueCommand(options: $0).run($1) }
        case .report:
            guard let options = try ReportOptions(parsing: arguments) else { return help() }
            return .work(command) { try ReportCommand(options: options).run() }
        case .import:
            guard let options = try ImportOptions(parsing: arguments) else { return help() }
            return .work(command) { try ImportCommand(options: options).run() }
        case .cache:
            guard let lookup = try CacheLookup(parsing: arguments, environment: environment) else { return help() }
            return .work(command) { try CacheCommand.run(lookup) }
        case .demo:
            guard let parsed = try ParsedOptions(.plain(command), arguments) else { return help() }
            if let operand = parsed.operands.first {
                throw UsageError("demo takes no arguments, not \(operand.debugDescription)")
            }
            return try demo(limits)
        case .completions:
            guard let parsed = try ParsedOptions(.plain(command), arguments) else { return help() }
            return printed(try Shell(parsing: parsed.operands).completions)
        case .help:
            guard let parsed = try ParsedOptions(.plain(command), arguments) else { return help() }
            return printed(try HelpTopic.text(for: parsed.operands))
        }
    }

    private static func sending<Options: Sendable>(
        _ options: Options, _ fetch: WritableKeyPath<Options, FetchOptions>, _ limits: ProcessLimits,
        _ command: Subcommand, _ work: @escaping @Sendable (Options, Interruption) async throws -> ExitStatus
    ) throws(UsageError) -> Invocation {
        var options = options
        options[keyPath: fetch] = try options[keyPath: fetch].within(limits)
        let interruption = Interruption()
        guard interruption.watchSignals() else { return tooFewThreads }
        let threads = ProcessLimits.freeThreads(atMost: options[keyPath: fetch].mostThreads)
        guard options[keyPath: fetch].takeLess(threads: threads) else { return tooFewThreads }
        return .work(command) { [options] in try await work(options, interruption) }
    }

    private static func demo(_ limits: ProcessLimits) throws(UsageError) -> Invocation {
        _ = try limits.jobs(atMost: 1)
        let interruption = Interruption()
        guard interruption.watchSignals(),
            ProcessLimits.freeThreads(atMost: ProcessLimits.demoThreads) == ProcessLimits.demoThreads
        else { return tooFewThreads }
        return .work(.demo) { await DemoCommand.run(interruption) }
    }
}
