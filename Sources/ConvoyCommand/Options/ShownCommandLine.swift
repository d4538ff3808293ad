// A command line as a page may show it.
import Convoy

/// Writes a command line without what may be a secret.
///
/// Values of options are shown by group: those that say what is sent, to whom and by whose right are left out.
enum ShownCommandLine {
    /// Of many operands these are shown.
    private static let operandLimit = 3
    private static let valueColumns = 160

    /// - Parameters:
    ///   - command: the subcommand.
    ///   - arguments: those behind it.
    ///   - options: what the subcommand knows.
    static func text(_ command: String, _ arguments: [String], _ options: [Option]) -> String {
        // What could not be read was refused before.
        guard let scanned = try? OptionScanner(options: options, command: command).scan(arguments) else {
            return "convoy \(command)"
        }
        var words = ["convoy", command]
        for (option, value) in scanned.given {
            words.append("--\(option.name)")
            if option.takesValue { words.append(isShown(option) ? shown(value) : "…") }
        }
        words += scanned.operands.prefix(operandLimit).map(shown)
        let rest = scanned.operands.count - operandLimit
        return words.joined(separator: " ") + (rest > 0 ? " … and \(rest) more" : "")
    }

    private static func isShown(_ option: Option) -> Bool {
        switch option.value {
        case .none, .directory, .choice: true
        // The file of --cert may have its password behind it.
        case .file: option.group != .connections
        case .text: [.files, .lists, .limits].contains(option.group)
        }
    }

    private static func shown(_ value: String) -> String {
        let text = withoutUser(HARRecorder.redacted(value)).clipped(toColumns: valueColumns)
        let isPlain = text.unicodeScalars.allSatisfy { scalar in
            scalar.properties.isAlphabetic || "0123456789-_./:=@%+,".unicodeScalars.contains(scalar)
        }
        return isPlain && !text.isEmpty ? text : "'" + text.replacing("'", with: #"'\''"#) + "'"
    }

    /// A URL may be written without its scheme: `me:password@host/path`.
    private static func withoutUser(_ value: String) -> String {
        guard !value.contains("://"), value.contains(":") else { return value }
        let end = value.firstIndex { "/?#".contains($0) } ?? value.endIndex
        guard let at = value[..<end].lastIndex(of: "@") else { return value }
        return String(value[value.index(after: at)...])
    }
}
