// From the arguments to a subcommand.
import Convoy
import Foundation

/// The command as a whole.
enum Tool {
    static let version = Version.current

    private enum Invocation {
        case text(String)
        case fetch(FetchOptions)
        case demo
    }

    /// Runs what the arguments (without the program's name) ask for.
    static func run(_ arguments: [String], within limits: ProcessLimits) async -> ExitStatus {
        StandardStreams.secure()
        do {
            switch try parse(arguments) {
            case .text(let text):
                let console = Console(allowsLive: false)
                console.printLine(text)
                return console.status(after: .success)
            case .fetch(let options): return try await FetchCommand(options: options.within(limits)).run()
            case .demo:
                _ = try limits.jobs(atMost: 1, for: "demo")
                return await DemoCommand.run()
            }
        } catch {
            let console = Console(allowsLive: false)
            console.printError("convoy: \(error.message)")
            console.printError(error.hint)
            return .usage
        }
    }

    private static func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
        guard let first = arguments.first else { throw UsageError("there is no command") }
        if let command = Subcommand(rawValue: first) { return try parse(command, Array(arguments.dropFirst())) }
        switch first {
        case "--help", "-h", "help": return .text(HelpText.tool)
        case "--version": return .text("convoy \(version)")
        default:
            let what = first.hasPrefix("-") ? "option" : "command"
            throw UsageError("there is no \(what) \(first.debugDescription)")
        }
    }

    private static func parse(_ command: Subcommand, _ arguments: [String]) throws(UsageError) -> Invocation {
        switch command {
        case .fetch: return try FetchOptions(parsing: arguments).map(Invocation.fetch) ?? .text(command.help)
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
