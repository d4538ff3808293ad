// From the arguments to a subcommand.
import Convoy
import Foundation

/// The command as a whole.
enum Tool {
    static let version = Version.current

    /// What is left to be run.
    enum Invocation {
        /// Nothing: a text has been printed, or an error.
        case ended(ExitStatus)
        case fetch(FetchOptions, Interruption)
        case demo(Interruption)
    }

    private enum Request {
        case text(String)
        case fetch(FetchOptions)
        case demo
    }

    /// Does what needs no other thread, and looks whether there is enough for the rest.
    ///
    /// - Parameter arguments: without the program's name.
    /// - Thread: the main one, before there is any other.
    static func prepare(_ arguments: [String], within limits: ProcessLimits) -> Invocation {
        StandardStreams.secure()
        do {
            switch try parse(arguments) {
            case .text(let text):
                let console = Console(allowsLive: false)
                console.printLine(text)
                return .ended(console.status(after: .success))
            case .fetch(let options):
                var options = try options.within(limits)
                let interruption = Interruption()
                guard interruption.watchSignals() else { return tooFewThreads }
                let threads = ProcessLimits.freeThreads(atMost: options.mostThreads)
                return options.takeLess(threads: threads) ? .fetch(options, interruption) : tooFewThreads
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

    /// Runs what has been prepared.
    static func run(_ invocation: Invocation) async -> ExitStatus {
        switch invocation {
        case .ended(let status): return status
        case .fetch(let options, let interruption):
            do { return try await FetchCommand(options: options).run(interruption) } catch { return tell(error) }
        case .demo(let interruption): return await DemoCommand.run(interruption)
        }
    }

    private static func tell(_ error: UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        console.printError("convoy: \(error.message)")
        console.printError(error.hint)
        return .usage
    }

    /// Tells that nothing can be run.
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
        // What is no command is to be fetched.
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
            let options = try FetchOptions(parsing: arguments, environment: ProcessInfo.processInfo.environment)
            return options.map(Request.fetch) ?? .text(command.help)
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
