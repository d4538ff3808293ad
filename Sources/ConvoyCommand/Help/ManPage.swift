import Convoy

enum ManPage {
    private static let date = "2026-11-25"

    static var text: String {
        var lines = [
            ".TH CONVOY 1 \"\(date)\" \"convoy \(Version.current)\" \"User Commands\"", ".SH NAME",
            "convoy \\- download many files at a time, and continue interrupted ones", ".SH SYNOPSIS",
            ".B convoy", "[\\fBfetch\\fR] [\\fIoptions\\fR] \\fIURL\\fR...", ".br", ".B convoy",
            "[\\fBfetch\\fR] [\\fIoptions\\fR] \\fB\\-i\\fR \\fIFILE\\fR",
        ]
        for command in Subcommand.allCases where command != .fetch {
            lines += [".br", ".B convoy \(command.rawValue)"]
            if command.operands == .files { lines.append("[\\fIoptions\\fR] \\fIFILE.http\\fR [\\fINAME\\fR...]") }
            if command.operands == .manyFiles {
                lines.append("\\fIEVENTS.jsonl\\fR... \\fB\\-\\-html\\fR \\fIFILE\\fR")
            }
            if command.operands == .document { lines.append("[\\fIoptions\\fR] \\fIFILE\\fR") }
            if case .choice(let words) = command.operands { lines.append(escaped(words.joined(separator: "|"))) }
        }
        lines += [
            ".SH DESCRIPTION",
            "Downloads every URL into a file. A file appears under its name only when it is complete; a partial file "
                + "is kept, and the same command continues it.",
            ".SH OPTIONS", "Short options, except -i, -j and -P, are those of",
            ".BR curl (1).",
        ].map { $0.hasPrefix(".") ? $0 : escaped($0) }
        for group in Option.Group.allCases {
            let members = Subcommand.fetch.options.filter { $0.group == group }
            if !members.isEmpty { lines += [".SS \(escaped(group.rawValue))"] + members.flatMap(entry) }
        }
        for command in [Subcommand.run, .queue, .import, .report] {
            let own = command.options.filter { !$0.verbs.contains(.fetch) }
            lines += [".SH OPTIONS OF \(command.rawValue.uppercased())"] + own.flatMap(entry)
        }
        lines += [".SH STORED RESPONSES"] + paragraphs(HelpText.cache)
        lines += [".SH FILES OF REQUESTS"] + paragraphs(HelpText.requestFiles)
        lines += [".SH ENVIRONMENT"] + HelpText.variables.flatMap { [".TP", ".B \(escaped($0))", escaped($1)] }
        let topics: [(String, String)] = [
            ("LISTS OF URLS", HelpText.lists), ("NAMES OF FILES", HelpText.names),
            ("RETRIES AND REDIRECTS", HelpText.retries), ("EVENTS", HelpText.json),
            ("SIGNALS AND EXIT STATUS", HelpText.signals),
        ]
        for (title, text) in topics { lines += [".SH \(title)"] + paragraphs(text) }
        lines += [".SH SEE ALSO", ".BR curl (1),", ".BR wget (1),", ".BR aria2c (1)"]
        return lines.joined(separator: "\n")
    }

    private static func entry(_ option: Option) -> [String] {
        let spellings = option.spellings.reversed().map { "\\fB\(escaped($0))\\fR" }.joined(separator: ", ")
        let value = option.takesValue ? "\\fI\(escaped(option.valueUsage))\\fR" : ""
        return [".TP", spellings + value, escaped(option.detail)]
    }

    // The formatter of man(1) then fills the paragraphs, and prints indented lines unchanged.
    private static func paragraphs(_ text: String) -> [String] {
        var (lines, isPlain, isFirst) = ([String](), true, true)
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let isIndented = line.hasPrefix("  ")
            if isIndented, isPlain { lines.append(".nf") }
            if !isIndented, !isPlain { lines.append(".fi") }
            isPlain = !isIndented
            if line.isEmpty {
                if !isFirst, lines.last != ".PP" { lines.append(".PP") }
            } else {
                lines.append(escaped(String(line)))
            }
            isFirst = false
        }
        if !isPlain { lines.append(".fi") }
        return lines
    }

    private static func escaped(_ text: String) -> String {
        var text = text.replacing("\\", with: "\\e").replacing("-", with: "\\-")
        if let first = text.first, ".'".contains(first) { text = "\\&" + text }
        return text
    }
}
