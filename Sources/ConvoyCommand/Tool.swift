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
    static func run(_ arguments: [String]) async -> ExitStatus {
        StandardStreams.secure()
        do {
            switch try parse(arguments) {
            case .text(let text):
                let console = Console(allowsLive: false)
                console.printLine(text)
                return console.isOutputClosed ? .outputClosed : .success
            case .fetch(let options): return try await FetchCommand(options: options).run()
            case .demo: return await DemoCommand.run()
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
        let rest = Array(arguments.dropFirst())
        switch first {
        case "--help", "-h", "help": return .text(HelpText.tool)
        case "--version": return .text("convoy \(version)")
        case "fetch":
            guard let options = try FetchOptions(parsing: rest) else { return .text(HelpText.fetch) }
            return .fetch(options)
        case "demo":
            let scanned = try OptionScanner(options: [.help], command: "demo").scan(rest)
            if scanned.has(.help) { return .text(HelpText.demo) }
            if let operand = scanned.operands.first {
                throw UsageError("demo takes no arguments, and got \(operand.debugDescription)", command: "demo")
            }
            return .demo
        default:
            let what = first.hasPrefix("-") ? "option" : "command"
            throw UsageError("there is no \(what) \(first.debugDescription)")
        }
    }
}
