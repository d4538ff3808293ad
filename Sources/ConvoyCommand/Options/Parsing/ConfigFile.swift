import Foundation

enum ConfigFile {
    private static let limitBytes = 1 << 20

    static func read(
        _ scanned: ScannedArguments, _ environment: [String: String], _ scanner: OptionScanner
    ) throws(UsageError) -> ScannedArguments {
        var all = ScannedArguments()
        var paths = scanned.values(of: .config)
        if paths.isEmpty, !scanned.has(.noConfig), let own = ownPath(environment), access(own, F_OK) == 0 {
            paths = [own]
        }
        for path in paths {
            let text: String
            do { text = try Self.text(of: path) } catch {
                throw UsageError("--config \(error.message)")
            }
            let file = try scan(text, path, scanner)
            all.given += file.given
            all.operands += file.operands
        }
        return all
    }

    static func ownPath(_ environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return directory + "/convoy/config"
        }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return home + "/.config/convoy/config"
    }

    private static func text(of path: String) throws(UsageError) -> String {
        let content = try OptionValues.content(of: path, limitBytes: limitBytes)
        guard let text = String(data: content, encoding: .utf8) else {
            throw UsageError("cannot read \(path): it is not UTF-8")
        }
        return text
    }

    static func scan(_ text: String, _ path: String, _ scanner: OptionScanner) throws(UsageError) -> ScannedArguments {
        var all = ScannedArguments()
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (index, line) in lines.enumerated() {
            let line = line.trimmingCharacters(in: .whitespaces)
            guard !line.isEmpty, !line.hasPrefix("#") else { continue }
            let name = line.prefix { !" \t=:".contains($0) }
            var rest = line.dropFirst(name.count).drop { " \t".contains($0) }
            if let mark = rest.first, "=:".contains(mark) { rest = rest.dropFirst().drop { " \t".contains($0) } }
            let value = value(rest)
            let word = name.drop { $0 == "-" }
            let spelling = name.hasPrefix("-") && !name.hasPrefix("--") ? String(name) : "--\(word)"
            let scanned: ScannedArguments
            let isJoined = scanner.options.contains { $0.name == word && $0.isValueOptional }
            let words = value.map { isJoined ? ["\(spelling)=\($0)"] : [spelling, $0] } ?? [spelling]
            do { scanned = try scanner.scan(words) } catch {
                throw UsageError("line \(index + 1) of \(path): \(error.message)")
            }
            guard scanned.operands.isEmpty || word == "url" else {
                throw UsageError("line \(index + 1) of \(path): the option --\(word) takes no value: remove it")
            }
            if let option = scanned.given.first?.option, [Option.config, .noConfig, .help].contains(option) {
                throw UsageError("line \(index + 1) of \(path): --\(option.name) is valid only on a command line")
            }
            all.given += scanned.given
            all.operands += scanned.operands
        }
        return all
    }

    // A `#` begins a comment after a blank and before no digit: a value may be `Track #1.mp3` or `#1.html`. Without a
    // value the result is nil; `""` is an empty value.
    private static func value(_ text: Substring) -> String? {
        guard let match = text.prefixMatch(of: #/"((?:[^"\\]|\\.)*)/#) else {
            let padded = " " + text
            let comment = padded.firstMatch(of: #/[ \t]#(?!\d)/#)?.range.lowerBound
            let value = padded[..<(comment ?? padded.endIndex)].trimmingCharacters(in: .whitespaces)
            // In a value with blanks, the `#` may belong to the value: `Track # 1.mp3`. So such a text has no comment.
            if value.contains(where: \.isWhitespace) { return String(text) }
            return value.isEmpty ? nil : value
        }
        let escapes: [Substring: Substring] = ["n": "\n", "t": "\t", "r": "\r", "v": "\u{0B}"]
        return String(match.1.replacing(#/\\(.)/#) { escapes[$0.1] ?? $0.1 })
    }
}
