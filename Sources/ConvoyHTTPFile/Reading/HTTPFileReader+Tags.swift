// Comments with a meaning: `# @name login`.

extension HTTPFileReader {
    private static let tags = [
        "name", "depends", "ref", "forceRef", "prompt", "no-redirect", "no-cookie-jar", "disabled", "expect", "assert",
        "timeout",
    ]
    /// Unsupported tags of other programs that change a request, and the advice for each.
    private static let impossible = [
        "import": "copy the requests into this file", "loop": "give --each FILE or --repeat N",
        "no-reject-unauthorized": "give --insecure, which applies to all requests", "jwt": "",
        "injectVariables": "write {{name}} into the text", "connection-timeout": "give --connect-timeout",
        "use-os-credentials": "write Authorization: Basic user password",
    ]

    /// Reads a comment line, which has an effect only if it contains a tag.
    mutating func readTag(_ line: String) {
        guard let sign = line.utf8.firstIndex(of: UInt8(ascii: "@")),
            line[..<sign].trimmed.utf8.allSatisfy({ $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "/") })
        else { return }
        let offset = line[..<sign].count
        let tag = Substring(line.utf8[sign...].dropFirst().prefix(while: \.isWordByte))
        let (rest, blanks) = (line[tag.endIndex...], line[tag.endIndex...].indentation)
        guard rest.isEmpty || blanks > 0 else { return }
        let value = Word(text: rest.trimmed, position: position(offset + 1 + tag.utf8.count + blanks))
        read(String(tag), value, at: position(offset))
    }

    private mutating func read(_ tag: String, _ value: Word, at place: Position) {
        switch tag {
        case "name":
            // The syntax of JetBrains: `# @name = login`.
            var value = value
            if value.text.hasPrefix("=") {
                let rest = value.text.dropFirst()
                value = Word(text: rest.trimmed, position: value.position.advanced(by: 1 + rest.indentation))
            }
            if value.text.isEmpty {
                return report(place, "no name follows @name", "write # @name login")
            }
            guard value.text.isRequestName else {
                // References cannot use this text, so it is only a title.
                request.title = value
                return
            }
            if let name = request.name {
                return report(place, "the request is already called \(name.text.shown)", "remove one of the names")
            }
            request.name = value
        case "depends", "ref", "forceRef":
            let words = value.words
            if words.isEmpty { report(place, "no name follows @\(tag)", "write # @\(tag) login") }
            request.dependencies += words
        case "prompt":
            guard let word = value.words.first else {
                return report(
                    place, "no name follows @prompt", "write # @prompt name, and give --variable name=…")
            }
            request.prompts.append(word)
        case "timeout":
            guard let timeout = Self.duration(value.text) else {
                return report(
                    value.text.isEmpty ? place : value.position, "\(value.text.shown) is not a time",
                    "write seconds, or 500 ms, 30 s or 2 m: # @timeout 30")
            }
            request.timeout = timeout
        case "no-redirect": request.followsRedirects = false
        case "no-cookie-jar": request.usesCookieJar = false
        case "disabled":
            guard value.text.isEmpty else {
                return report(place, "conditions in scripts are not supported", "write # @disabled alone", .impossible)
            }
            request.isDisabled = true
        case "expect", "assert": readCheck(value.text, at: value.position)
        default:
            if let advice = Self.impossible[tag] {
                let what = "@\(tag) is not supported"
                return report(place, what, advice.isEmpty ? "remove it" : advice, .impossible)
            }
            // A tag that is nearly a known one is an error. Any other text is a comment.
            guard let near = Self.tags.first(where: { $0.isOneSlip(from: tag) }) else { return }
            report(place, "unknown tag @\(tag)", "did you mean # @\(near)?")
        }
    }

    /// Parses a number of seconds, or of another unit that follows the number.
    private static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCIIDigit }
        guard let number = Int(digits), (1...1_000_000_000).contains(number) else { return nil }
        return switch text.dropFirst(digits.count).trimmed {
        case "ms": .milliseconds(number)
        case "", "s": .seconds(number)
        case "m": .seconds(number * 60)
        default: nil
        }
    }

    /// Reads `?? status == 200`, the syntax of httpyac for a check.
    mutating func readCheck(behind text: String, at offset: Int) {
        let check = text.dropFirst(2)
        readCheck(check.trimmed, at: position(offset + 2 + check.indentation))
    }

    private mutating func readCheck(_ text: String, at place: Position) {
        if text.contains("{{") {
            let advice = "write the value itself"
            file.problems.append(Problem(place, "checks cannot use variables", advice))
            return
        }
        do throws(Problem) { request.checks.append(try Check(text, at: place)) } catch { file.problems.append(error) }
    }
}

extension Word {
    /// The words of the text, separated by commas or blanks.
    fileprivate var words: [Word] {
        var (words, offset) = ([Word](), 0)
        for part in text.split(omittingEmptySubsequences: false, whereSeparator: { $0.isWhitespace || $0 == "," }) {
            if !part.isEmpty { words.append(Word(text: String(part), position: position.advanced(by: offset))) }
            offset += part.count + 1
        }
        return words
    }
}

extension String {
    /// Whether one inserted, deleted or replaced letter, or two swapped letters, turn this word into the other one.
    func isOneSlip(from other: String) -> Bool {
        guard self != other, count > 2, other.count > 2 else { return false }
        let (left, right) = (Array(self), Array(other))
        guard abs(left.count - right.count) <= 1 else { return false }
        let start = zip(left, right).prefix { $0 == $1 }.count
        let (restOfLeft, restOfRight) = (left[start...], right[start...])
        if restOfLeft.dropFirst() == restOfRight.dropFirst() || restOfLeft.dropFirst() == restOfRight
            || restOfLeft == restOfRight.dropFirst()
        {
            return true
        }
        return left.count == right.count && restOfLeft.count > 1
            && Array(restOfLeft.prefix(2).reversed()) == Array(restOfRight.prefix(2))
            && restOfLeft.dropFirst(2) == restOfRight.dropFirst(2)
    }
}
