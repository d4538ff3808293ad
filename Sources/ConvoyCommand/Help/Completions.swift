extension String {
    var shellQuoted: String { "'" + replacing("'", with: #"'\''"#) + "'" }
}

enum Shell: String, CaseIterable, Sendable {
    case bash, zsh, fish

    init(parsing operands: [String]) throws(UsageError) {
        let names = Shell.allCases.map(\.rawValue).joined(separator: ", ")
        guard operands.count == 1 else {
            throw UsageError("completions takes one shell (\(names)), not \(operands.count)")
        }
        guard let shell = Shell(rawValue: operands[0]) else {
            throw UsageError("no completions for \(operands[0].debugDescription); the shells are \(names)")
        }
        self = shell
    }

    var completions: String {
        switch self {
        case .bash: BashCompletions.script
        case .zsh: ZshCompletions.script
        case .fish: FishCompletions.script
        }
    }
}

/// Makes a completion function that does not need the package `bash-completion`.
enum BashCompletions {
    static var script: String {
        """
        # Completions of convoy for bash. Load them with: source <(convoy completions bash)
        _convoy() {
            local word="${COMP_WORDS[COMP_CWORD]}" previous="" command="${COMP_WORDS[1]}" IFS=$'\\n'
            COMPREPLY=()
            if [ "$COMP_CWORD" -le 1 ]; then
                case "$word" in
                    -*) COMPREPLY=($(compgen -W \(words(impliedOptions)) -- "$word")) ;;
                    *) COMPREPLY=($(compgen -W \(words(commands)) -- "$word")) ;;
                esac
                return
            fi
            # Without a command, the words are options and URLs of fetch.
            case "$command" in -*|*[./:]*) command=fetch ;; esac
            previous="${COMP_WORDS[COMP_CWORD - 1]}"
            # "=" is a word of its own here: --name = value
            if [ "$word" = "=" ]; then word="" previous="$previous="
            elif [ "$previous" = "=" ]; then previous="${COMP_WORDS[COMP_CWORD - 2]}="
            fi
            case "$command" in
        \(Subcommand.allCases.map(branch).joined(separator: "\n"))
            esac
        }
        complete -F _convoy convoy
        """
    }

    private static var commands: [String] {
        Subcommand.allCases.map(\.rawValue) + Subcommand.toolOptions.map { "--\($0.name)" }
    }

    private static var impliedOptions: [String] {
        Subcommand.fetch.options.map { "--\($0.name)" }
            + Subcommand.toolOptions.filter { $0 != .help }.map { "--\($0.name)" }
    }

    private static func branch(_ command: Subcommand) -> String {
        var lines = ["        \(command.rawValue))"]
        let valued = command.options.filter(\.takesValue)
        if !valued.isEmpty {
            lines.append("            case \"$previous\" in")
            for option in valued {
                let alone = option.isValueOptional ? [] : option.spellings
                let pattern = (alone + option.spellings.map { $0 + "=" }).joined(separator: "|")
                lines.append("                \(pattern)) \(values(option.value))return ;;")
            }
            lines.append("            esac")
        }
        var candidates = command.options.map { "--\($0.name)" }
        if case .choice(let choices) = command.operands { candidates += choices }
        let files = command.operands.areFiles ? "-f " : ""
        lines.append("            COMPREPLY=($(compgen \(files)-W \(words(candidates)) -- \"$word\"))")
        return (lines + ["            ;;"]).joined(separator: "\n")
    }

    private static func values(_ value: Option.Value) -> String {
        let action: String? =
            switch value {
            case .none, .text, .textOrFile: nil
            case .file: "-f"
            case .directory: "-d"
            case .choice(let choices): "-W \(words(choices))"
            }
        guard let action else { return "" }
        let opening = if case .choice = value { "" } else { "compopt -o filenames 2>/dev/null; " }
        return opening + "COMPREPLY=($(compgen \(action) -- \"$word\")); "
    }

    private static func words(_ words: [String]) -> String { "$'" + words.joined(separator: #"\n"#) + "'" }
}

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
            // A command line without a command is one of fetch.
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

enum ZshCompletions {
    static var script: String {
        """
        #compdef convoy
        # Completions of convoy for zsh. Put this into a file _convoy in a directory of $fpath,
        # or load it after compinit with: source <(convoy completions zsh)
        _convoy() {
            local context state state_descr line
            typeset -A opt_args
            local -a implied
            # Without a command, the words are options and URLs of fetch.
            if [[ $words[2] == -* || ($CURRENT -gt 2 && $words[2] == *[./:]*) ]]; then
                (( CURRENT == 2 )) && implied=(\(impliedOptions.joined(separator: " ")))
                words=($words[1] fetch "${(@)words[2,-1]}")
                (( CURRENT++ ))
            fi
            _arguments -C \(Subcommand.toolOptions.flatMap(specifications).joined(separator: " ")) \\
                '1:command:->command' '*::argument:->argument' && return
            case $state in
                command)
                    local -a commands
                    commands=(\(Subcommand.allCases.map { "\($0.rawValue):\($0.summary)".shellQuoted }.joined(separator: " ")))
                    _describe command commands
                    ;;
                argument)
                    case $line[1] in
        \(Subcommand.allCases.map(branch).joined(separator: "\n"))
                    esac
                    ;;
            esac
        }
        if [ "$funcstack[1]" = "_convoy" ]; then _convoy "$@"; else compdef _convoy convoy; fi
        """
    }

    private static var impliedOptions: [String] {
        Subcommand.toolOptions.filter { $0 != .help }.flatMap(specifications)
    }

    private static func branch(_ command: Subcommand) -> String {
        let implied = command == .fetch ? "$implied " : ""
        var lines = ["                \(command.rawValue))", "                    _arguments -s \(implied)\\"]
        lines += command.options.flatMap(specifications).map { "                        \($0) \\" }
        switch command.operands {
        case .none: lines.append("                        && return")
        case .files: lines.append("                        '1:file:_files' '*:name: '")
        case .document: lines.append("                        '1:file:_files'")
        case .manyFiles: lines.append("                        '*:file:_files'")
        case .urls: lines.append("                        '*:URL:_urls'")
        case .choice(let choices): lines.append("                        '1:shell:(\(choices.joined(separator: " ")))'")
        }
        return (lines + ["                    ;;"]).joined(separator: "\n")
    }

    // After a spelling, `+` allows a value that directly follows, `=` an equals sign before it, and `=-` requires one.
    private static func specifications(_ option: Option) -> [String] {
        let exclusion = option.isRepeatable ? "*" : "(\(option.spellings.joined(separator: " ")))"
        return option.spellings.map { spelling in
            let joint = option.takesValue ? (spelling.hasPrefix("--") ? option.isValueOptional ? "=-" : "=" : "+") : ""
            return "\(exclusion)\(spelling)\(joint)[\(option.summary)]\(value(option))".shellQuoted
        }
    }

    private static func value(_ option: Option) -> String {
        // The label is the word for the value in the help; a colon would end it.
        let label = ":" + option.valueWord.filter { $0.isLetter || $0 == " " }
        switch option.value {
        case .none: return ""
        case .text, .textOrFile: return label + ": "
        case .file: return label + ":_files"
        case .directory: return (option.isValueOptional ? ":" : "") + label + ":_files -/"
        case .choice(let choices): return label + ":(\(choices.joined(separator: " ")))"
        }
    }
}
