// The completion script for bash 3.2 and newer.

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

    /// The options that may be the first word instead of a command: those of fetch, and of convoy itself.
    private static var impliedOptions: [String] {
        Subcommand.fetch.options.map { "--\($0.name)" }
            + Subcommand.toolOptions.filter { $0 != .help }.map { "--\($0.name)" }
    }

    /// The `case` branch of a command, which completes the values of options, the options and the operands.
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

    /// Words for `compgen`, one on each line, because the script sets `IFS` to a line feed.
    private static func words(_ words: [String]) -> String { "$'" + words.joined(separator: #"\n"#) + "'" }
}
