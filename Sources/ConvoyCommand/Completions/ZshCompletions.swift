// The completion script for zsh.

/// Makes a completion function that calls `_arguments` of zsh.
///
/// `_arguments` handles abbreviations, `--name=value` and exclusions.
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

    /// The options of convoy itself, such as `--version`, which may be the first word instead of a command.
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

    /// The specifications of an option for `_arguments`, one for each spelling.
    ///
    /// After a spelling, `+` allows a value that directly follows the option. `=` allows an equals sign before the
    /// value, and `=-` requires it.
    private static func specifications(_ option: Option) -> [String] {
        let exclusion = option.isRepeatable ? "*" : "(\(option.spellings.joined(separator: " ")))"
        return option.spellings.map { spelling in
            let joint = option.takesValue ? (spelling.hasPrefix("--") ? option.isValueOptional ? "=-" : "=" : "+") : ""
            return "\(exclusion)\(spelling)\(joint)[\(option.summary)]\(value(option))".shellQuoted
        }
    }

    private static func value(_ option: Option) -> String {
        // The label is the word for the value in the help. Only its letters and blanks are used, because a colon would
        // end the label.
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
