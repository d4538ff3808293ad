// The completion script for fish.

/// Makes a `complete` statement for every option of every command.
enum FishCompletions {
    static var script: String {
        var lines = [
            "# Completions of convoy for fish. Load them with: convoy completions fish | source",
            "complete -c convoy -f",
        ]
        for option in Subcommand.toolOptions where option != .help {
            lines.append(line(option, when: "__fish_use_subcommand"))
        }
        for command in Subcommand.allCases {
            let words = "-a \(command.rawValue) -d \(command.summary.shellQuoted)"
            lines.append("complete -c convoy -n __fish_use_subcommand \(words)")
            // A command line without a command is one of fetch. So its options are offered until another command is
            // typed.
            let others = Subcommand.allCases.filter { $0 != .fetch }.map(\.rawValue).joined(separator: " ")
            let isCommand =
                command == .fetch
                ? "'not __fish_seen_subcommand_from \(others)'" : "'__fish_seen_subcommand_from \(command.rawValue)'"
            for option in command.options { lines.append(line(option, when: isCommand)) }
            if command.operands.areFiles {
                lines.append("complete -c convoy -n \(isCommand) -F")
            }
            if case .choice(let choices) = command.operands {
                lines.append("complete -c convoy -n \(isCommand) -a '\(choices.joined(separator: " "))'")
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func line(_ option: Option, when condition: String) -> String {
        let short = option.short.map { "-s \($0) " } ?? ""
        let value =
            switch option.value {
            case .none: ""
            case .directory where option.isValueOptional: ""
            case .text, .textOrFile: "-x "
            case .file: "-r -F "
            case .directory: "-x -a '(__fish_complete_directories)' "
            case .choice(let choices): "-x -a '\(choices.joined(separator: " "))' "
            }
        return "complete -c convoy -n \(condition) \(short)-l \(option.name) \(value)-d \(option.summary.shellQuoted)"
    }
}
