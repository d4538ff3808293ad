// Reads response handlers. Other scripts are reported as errors.

extension HTTPFileReader {
    /// Reads a script of one or more lines.
    ///
    /// Returns false if the line starts no script.
    mutating func readScript(_ text: String, startsBody: Bool) -> Bool {
        guard let first = text.utf8.first, "<>{".utf8.contains(first) else { return false }
        let start = position(lines[index].indentation)
        let advice =
            "use {{name.response.body.$.x}} for a value of a response and # @expect for a check, or give --skip-scripts"
        func isFile(_ mark: Character) -> Bool {
            guard text.first == mark, text.dropFirst().first?.isWhitespace == true else { return false }
            return [".js", ".mjs", ".ts"].contains { text.lowercased().hasSuffix($0) }
        }
        let inner = text.drop { "<>".contains($0) }.trimmed
        if text.hasPrefix("<") || text.hasPrefix(">"), text.dropFirst().first != ">", inner.hasPrefix("{%") {
            readScriptLines(isHandler: startsBody && text.hasPrefix(">"), at: start, advice)
            return true
        }
        if isFile(">") || (!startsBody && isFile("<")) {
            report(start, "this script is not supported", advice, .script)
            index += 1
            return true
        }
        guard text == "{{" || ["{{+", "{{@"].contains(where: { text.hasPrefix($0) && !text.contains("}}") }) else {
            return false
        }
        report(start, "this script is not supported", advice, .script)
        while index < blockEnd, lines[index].trimmed != "}}" { index += 1 }
        if index >= blockEnd { report(start, "a script is not closed", "write }} on a separate line after it") }
        index = min(index + 1, blockEnd)
        return true
    }

    /// Reads the text between `{%` and `%}`.
    ///
    /// A handler is parsed; any other script is an error.
    private mutating func readScriptLines(isHandler: Bool, at start: Position, _ advice: String) {
        let first = lines[index]
        guard let open = first.range(of: "{%") else { return }
        let place = position(first.distance(from: first.startIndex, to: open.upperBound))
        var text = String(first[open.upperBound...])
        while !text.contains("%}"), index + 1 < blockEnd {
            index += 1
            text += "\n" + lines[index]
        }
        index = min(index + 1, blockEnd)
        guard let close = text.range(of: "%}") else {
            return report(start, "a script is not closed", "write %} after it")
        }
        guard isHandler else { return report(start, "this script is not supported", advice, .script) }
        do throws(Problem) {
            request.handlers.append(try ScriptReader.read(String(text[..<close.lowerBound]), at: place))
        } catch { file.problems.append(error) }
    }
}
