import Foundation

struct URLGlob: Equatable {
    private struct Part: Equatable {
        var choices: [String]
        var isText = false
    }

    struct Match: Equatable {
        var url: String
        var choices: [String]

        /// A file name in which `#1` is replaced by the value of the first pair, and so on.
        func name(_ template: String) -> String {
            var (name, rest) = ("", template[...])
            while let character = rest.popFirst() {
                let digits = rest.prefix { $0.isASCII && $0.isNumber }
                guard character == "#", let number = Int(digits), choices.indices.contains(number - 1) else {
                    name.append(character)
                    continue
                }
                name += choices[number - 1]
                rest = rest.dropFirst(digits.count)
            }
            return name
        }
    }

    static let mostURLs = 1_000_000

    private var parts: [Part] = []

    // Brackets without a range are literal, as in `?page[size]=1` and `[::1]`.
    init(_ text: String) throws(UsageError) {
        var (rest, plain) = (text[...], "")
        while let character = rest.popFirst() {
            let choices: [String]
            let closing: Character = character == "{" ? "}" : "]"
            if character == "\\", let next = rest.first, "{}[]".contains(next) {
                plain.append(next)
                rest.removeFirst()
                continue
            }
            guard character == "{" || character == "[", let end = rest.firstIndex(of: closing) else {
                plain.append(character)
                continue
            }
            let inner = rest[..<end]
            if character == "{" {
                choices = inner.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            } else if let range = try Self.range(inner) {
                choices = range
            } else {
                plain.append(character)
                continue
            }
            parts += [Part(choices: [plain], isText: true), Part(choices: choices)]
            (plain, rest) = ("", rest[end...].dropFirst())
        }
        parts.append(Part(choices: [plain], isText: true))
        guard parts.reduce(1.0, { $0 * Double($1.choices.count) }) <= Double(Self.mostURLs) else {
            throw Self.tooMany
        }
    }

    var matches: [Match] {
        parts.reduce([Match(url: "", choices: [])]) { matches, part in
            matches.flatMap { match in
                part.choices.map { Match(url: match.url + $0, choices: match.choices + (part.isText ? [] : [$0])) }
            }
        }
    }

    private static func range(_ text: Substring) throws(UsageError) -> [String]? {
        guard let match = text.wholeMatch(of: #/([0-9]+|[A-Za-z])-([0-9]+|[A-Za-z])(?::([0-9]+))?/#) else {
            return nil
        }
        let (first, last) = (match.1, match.2)
        let bounds: (Int, Int)
        let isNumber = first.first?.isNumber == true
        guard isNumber == (last.first?.isNumber == true) else { return nil }
        if isNumber {
            guard let low = Int(first), let high = Int(last) else { throw tooMany }
            bounds = (low, high)
        } else {
            bounds = (Int(first.utf8.first ?? 0), Int(last.utf8.first ?? 0))
        }
        guard let step = match.3.map({ Int($0) }) ?? 1, step > 0, bounds.0 <= bounds.1 else {
            throw UsageError("[\(text)] is not a range such as [1-20] or [001-100:5]; --globoff turns patterns off")
        }
        guard (bounds.1 - bounds.0) / step < mostURLs else { throw tooMany }
        // If the first number has a leading zero, all numbers get its width.
        let width = first.hasPrefix("0") ? first.count : 0
        return stride(from: bounds.0, through: bounds.1, by: step).map { value in
            guard isNumber else { return String(Unicode.Scalar(UInt8(value))) }
            return String(format: "%0\(max(1, width))ld", value)
        }
    }

    private static let tooMany = UsageError(
        "it matches more than a million URLs; use a list, -i FILE, or --globoff")
}
