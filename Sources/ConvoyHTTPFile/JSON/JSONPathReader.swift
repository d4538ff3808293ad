// The grammar of JSONPath.

/// Reads a JSONPath, character by character.
struct JSONPathReader {
    private let characters: [Character]
    private var index = 0

    init(_ text: String) { characters = Array(text) }

    private var next: Character? { index < characters.count ? characters[index] : nil }

    mutating func read() throws(JSONPath.Defect) -> [JSONPath.Segment] {
        guard take("$") else { throw defect("it does not begin with $", "write $.name") }
        var segments: [JSONPath.Segment] = []
        while true {
            let before = index
            skipBlanks()
            guard next != nil else {
                guard before == index else { throw defect("it ends with a space", "remove it") }
                return segments
            }
            segments.append(try segment())
        }
    }

    private mutating func segment() throws(JSONPath.Defect) -> JSONPath.Segment {
        if take("[") { return JSONPath.Segment(selectors: try bracketed(), isDescendant: false) }
        guard take(".") else {
            throw defect("\(String(next ?? " ").shown) is in the place of . or [", "write $.name or $[0]")
        }
        let isDescendant = take(".")
        if isDescendant, take("[") { return JSONPath.Segment(selectors: try bracketed(), isDescendant: true) }
        if take("*") { return JSONPath.Segment(selectors: [.wildcard], isDescendant: isDescendant) }
        var name = ""
        while let character = next, character.isShorthand(isFirst: name.isEmpty) {
            name.append(character)
            index += 1
        }
        guard !name.isEmpty else {
            throw defect(
                "no name follows \(isDescendant ? ".." : ".")", "write $.name, or $['a name'] in quotes")
        }
        return JSONPath.Segment(selectors: [.name(name)], isDescendant: isDescendant)
    }

    private mutating func bracketed() throws(JSONPath.Defect) -> [JSONPath.Selector] {
        var selectors: [JSONPath.Selector] = []
        while true {
            skipBlanks()
            selectors.append(try selector())
            skipBlanks()
            if take("]") { return selectors }
            guard take(",") else { throw defect("[ is not closed", "write ] after the number or the name in quotes") }
        }
    }

    private mutating func selector() throws(JSONPath.Defect) -> JSONPath.Selector {
        switch next {
        case "*":
            index += 1
            return .wildcard
        case "'", "\"": return .name(try quoted())
        case "?", "(":
            throw defect(
                "filters are not supported", "choose by name, number, slice or *: $.items[0], $.items[-1], $..name")
        case ":", "-",
            _ where next?.isASCIIDigit == true:
            return try numbered()
        default:
            throw defect(
                "\(String(next ?? " ").shown) is neither a number nor a name in quotes", "write [0] or ['name']")
        }
    }

    private mutating func numbered() throws(JSONPath.Defect) -> JSONPath.Selector {
        let start = try number()
        skipBlanks()
        guard take(":") else {
            guard let start else { throw defect("no digits follow -", "write [-1] for the last one") }
            return .index(start)
        }
        skipBlanks()
        let end = try number()
        skipBlanks()
        var step: Int?
        if take(":") {
            skipBlanks()
            step = try number()
        }
        return .slice(start: start, end: end, step: step ?? 1)
    }

    private mutating func number() throws(JSONPath.Defect) -> Int? {
        let isNegative = take("-")
        var digits = ""
        while let digit = next, digit.isASCIIDigit {
            digits.append(digit)
            index += 1
        }
        guard !digits.isEmpty else {
            if isNegative { throw defect("no digits follow -", "write [-1] for the last one") }
            return nil
        }
        guard digits == "0" ? !isNegative : !digits.hasPrefix("0") else {
            throw defect(
                "\(isNegative ? "-" : "")\(digits) is not the number of an element", "write it without the zero")
        }
        // RFC 9535, section 2.1, limits integers to the range that I-JSON (RFC 7493) allows: below 2^53.
        guard let number = Int(digits), number < 1 << 53 else {
            throw defect("\(digits) is too large", "write a number below 9007199254740992")
        }
        return isNegative ? -number : number
    }

    private mutating func quoted() throws(JSONPath.Defect) -> String {
        guard let quote = next else { return "" }
        index += 1
        var name = String.UnicodeScalarView()
        while let character = next, character != quote {
            index += 1
            guard character == "\\" else {
                guard !character.isNewline, (character.asciiValue ?? 0x20) >= 0x20 else {
                    throw defect("a name contains a control character", "write it as \\u and four digits")
                }
                name.append(contentsOf: character.unicodeScalars)
                continue
            }
            name.append(try escape(in: quote))
        }
        guard take(quote) else { throw defect("a name in quotes is not closed", "write \(quote) after it") }
        return String(name)
    }

    private mutating func escape(in quote: Character) throws(JSONPath.Defect) -> Unicode.Scalar {
        defer { index += 1 }
        switch next {
        case "b": return "\u{8}"
        case "f": return "\u{C}"
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "/": return "/"
        case "\\": return "\\"
        case quote where quote == "'": return "'"
        case quote where quote == "\"": return "\""
        case "u":
            let high = try unit()
            guard (0xD800...0xDBFF).contains(high) else {
                guard let scalar = Unicode.Scalar(high) else { break }
                return scalar
            }
            guard index + 2 < characters.count, characters[index + 1] == "\\", characters[index + 2] == "u" else {
                break
            }
            index += 2
            let low = try unit()
            guard (0xDC00...0xDFFF).contains(low),
                let scalar = Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
            else { break }
            return scalar
        default: break
        }
        throw defect("\\\(next.map(String.init) ?? "") is not an escape", "write \\\\ for a backslash")
    }

    /// Reads the four hexadecimal digits after `\u`.
    ///
    /// Afterwards, `index` is that of the last digit.
    private mutating func unit() throws(JSONPath.Defect) -> UInt32 {
        // Each digit is checked, because an integer initializer would accept "+041".
        guard index + 4 < characters.count,
            characters[index + 1...index + 4].allSatisfy({ $0.isASCII && $0.isHexDigit }),
            let unit = UInt32(String(characters[index + 1...index + 4]), radix: 16)
        else {
            throw defect("four digits must follow \\u", "write \\u0041 for example")
        }
        index += 4
        return unit
    }

    private mutating func take(_ character: Character) -> Bool {
        guard next == character else { return false }
        index += 1
        return true
    }

    private mutating func skipBlanks() {
        while let character = next, " \t\n\r\r\n".contains(character) { index += 1 }
    }

    private func defect(_ what: String, _ advice: String) -> JSONPath.Defect {
        JSONPath.Defect(what: what, advice: advice)
    }
}

extension Character {
    var isASCIIDigit: Bool { isASCII && isNumber }

    /// Whether the character may be in a name without quotes.
    ///
    /// RFC 9535 does not allow -, but names of header fields contain it.
    fileprivate func isShorthand(isFirst: Bool) -> Bool {
        if self == "_" || !isASCII || isLetter { return true }
        return !isFirst && (isASCIIDigit || self == "-")
    }
}
