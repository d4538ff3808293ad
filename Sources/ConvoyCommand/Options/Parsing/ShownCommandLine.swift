// A command line for display on a page.
import Convoy

/// Formats a command line without possible secrets.
///
/// The type of the value and the group of the option decide whether the value is shown. Texts about requests,
/// connections, credentials and output are omitted. The names of files about connections are omitted too.
enum ShownCommandLine {
    /// The maximum number of operands that are shown.
    private static let operandLimit = 3
    private static let valueColumns = 160

    /// The command line as text.
    ///
    /// - Parameter scanned: the arguments after the subcommand.
    static func text(_ verb: Verb, _ scanned: ScannedArguments) -> String {
        var words = ["convoy", verb.words]
        for (option, value) in scanned.given {
            words.append("--\(option.name)")
            guard option.takesValue, !(option.isValueOptional && value.isEmpty) else { continue }
            let text = isShown(option) ? shown(value) : "…"
            if option.isValueOptional { words[words.count - 1] += "=" + text } else { words.append(text) }
        }
        words += scanned.operands.prefix(operandLimit).map(shown)
        let rest = scanned.operands.count - operandLimit
        return words.joined(separator: " ") + (rest > 0 ? " … and \(rest) more" : "")
    }

    private static func isShown(_ option: Option) -> Bool {
        switch option.value {
        case .none, .directory, .choice: true
        // The value of --cert may contain a password after the file name.
        case .file: option.group != .connections
        case .text, .textOrFile: [.files, .lists, .cache, .limits].contains(option.group)
        }
    }

    private static func shown(_ value: String) -> String {
        let text = withoutUser(SecretWords.standard.redacted(reference: value)).clipped(toColumns: valueColumns)
        let isPlain = text.unicodeScalars.allSatisfy { scalar in
            scalar.properties.isAlphabetic || "0123456789-_./:=@%+,".unicodeScalars.contains(scalar)
        }
        return isPlain && !text.isEmpty ? text : "'" + text.replacing("'", with: #"'\''"#) + "'"
    }

    /// Removes user and password from a URL without a scheme, such as `me:password@host/path`.
    private static func withoutUser(_ value: String) -> String {
        guard !value.contains("://"), value.contains(":") else { return value }
        let end = value.firstIndex { "/?#".contains($0) } ?? value.endIndex
        guard let at = value[..<end].lastIndex(of: "@") else { return value }
        return String(value[value.index(after: at)...])
    }
}
