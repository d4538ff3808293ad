// Built-in variables with a dollar sign: `{{$guid}}`, `{{$timestamp -1 d}}`.
import Foundation

/// A parsed `{{$…}}` variable.
///
/// Environment values are looked up during planning. Other values are computed when a request is built, or once for
/// each run if they are part of a variable of the file.
package enum SystemVariable: Hashable, Sendable {
    /// A shift of a time, such as `3 d` for three days later or `-3 d` for three days earlier.
    package struct Offset: Hashable, Sendable {
        package var count: Int
        package var unit: String
    }

    /// Why a system variable is invalid.
    struct Defect: Error {
        var what: String
        var advice: String
        /// Whether no other spelling helps, because the feature is not supported.
        var isImpossible = false

        init(_ what: String, _ advice: String, isImpossible: Bool = false) {
            (self.what, self.advice, self.isImpossible) = (what, advice, isImpossible)
        }
    }

    case uuid
    case timestamp(Offset?)
    case datetime(DateStyle, Offset?, isLocal: Bool)
    /// A random integer of at least the first number, and less than the second.
    case randomInt(Int, Int)
    /// A number of random characters from a set.
    case randomText(String, count: Int)
    /// A random number of at least the first number, and less than the second.
    case randomFloat(Double, Double)
    /// Random words, for example a name, an address or a sentence.
    case randomWords(RandomWords)
    /// A variable of the process's environment.
    ///
    /// If `isIndirect`, the name is the value of another variable.
    case processEnvironment(String, isIndirect: Bool)
    /// A variable of the file `.env`.
    case dotEnvironment(String, isIndirect: Bool)

    private static let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    private static let names = [
        "$guid", "$uuid", "$timestamp", "$isoTimestamp", "$datetime", "$localDatetime", "$randomInt", "$processEnv",
        "$dotenv", "$shared", "$random.uuid", "$random.integer", "$random.alphabetic", "$random.alphanumeric",
        "$random.hexadecimal", "$random.float", "$random.email", "$random.boolean",
    ]

    init(_ source: String) throws(Defect) {
        let words = source.words
        let first = words.first ?? source
        let name = String(first.prefix { $0 != "(" })
        switch name {
        case "$guid", "$uuid", "$random.uuid": self = .uuid
        case "$timestamp": self = .timestamp(try Self.offset(words.dropFirst()))
        case "$isoTimestamp": self = .datetime(.iso8601, nil, isLocal: false)
        case "$datetime", "$localDatetime": self = try Self.datetime(source.dropFirst(name.count).trimmed, name)
        case "$randomInt": self = try Self.randomInt(words.dropFirst().map { $0 })
        case "$random.integer": self = try Self.randomInt(Self.arguments(source))
        case "$random.float": self = try Self.randomFloat(Self.arguments(source))
        case "$random.alphabetic": self = try Self.randomText(Self.letters, source)
        case "$random.alphanumeric": self = try Self.randomText(Self.letters + "0123456789", source)
        case "$random.hexadecimal": self = try Self.randomText("0123456789abcdef", source)
        case "$processEnv": self = .processEnvironment(try Self.name(words), isIndirect: Self.isIndirect(words))
        case "$dotenv": self = .dotEnvironment(try Self.name(words), isIndirect: Self.isIndirect(words))
        case _ where name.hasPrefix("$env.") && name.count > 5:
            self = .processEnvironment(String(name.dropFirst(5)), isIndirect: false)
        case "$aadToken", "$aadV2Token", "$oidcAccessToken", "$auth.token", "$auth.idToken":
            throw Defect(
                "\(name) needs a person to log in",
                "get the token with a request of the file, or give it with --variable",
                isImpossible: true)
        case "$input", "$password", "$pick", "$prompt", "$input-askonce", "$password-askonce", "$pick-askonce":
            throw Defect(
                "\(name) needs input from a terminal", "write {{x}}, and give the value with --variable x=…",
                isImpossible: true)
        default:
            if let words = RandomWords(variable: name) {
                self = .randomWords(words)
                return
            }
            let near =
                name.count > 40
                ? nil : Self.names.min { $0.difference(from: name).count < $1.difference(from: name).count }
            let isNear = near.map { $0.lowercased().difference(from: name.lowercased()).count <= 3 } ?? false
            throw Defect(
                "unknown variable \(name)",
                isNear ? "did you mean {{\(near ?? "")}}?" : "the variables are \(Self.names.joined(separator: ", "))")
        }
    }

    private static func offset(_ words: ArraySlice<String>) throws(Defect) -> Offset? {
        guard let first = words.first else { return nil }
        let units = ["y", "Q", "M", "w", "d", "h", "m", "s", "ms"]
        guard words.count == 2, let last = words.last, let count = Int(first), count.magnitude < 1_000_000_000 else {
            throw Defect(
                "\(words.joined(separator: " ").shown) is not a time to add or subtract",
                "write a number and one of \(units.joined(separator: " ")): -1 d")
        }
        guard units.contains(last) else {
            throw Defect("\(last.shown) is not a unit of time", "write one of \(units.joined(separator: " "))")
        }
        return Offset(count: count, unit: last)
    }

    private static func datetime(_ arguments: String, _ name: String) throws(Defect) -> SystemVariable {
        let style: DateStyle
        let rest: String
        if let quote = arguments.first, "'\"".contains(quote) {
            guard let end = arguments.dropFirst().lastIndex(of: quote) else {
                throw Defect("the format of \(name) is not closed", "write \(quote) after it")
            }
            style = .custom(String(arguments[arguments.index(after: arguments.startIndex)..<end]))
            rest = String(arguments[arguments.index(after: end)...])
        } else {
            let word = arguments.words.first ?? ""
            switch word {
            case "iso8601": style = .iso8601
            case "rfc1123": style = .rfc1123
            default:
                throw Defect(
                    word.isEmpty ? "\(name) needs a format" : "\(word.shown) is not a date format",
                    "write {{\(name) iso8601}}, {{\(name) rfc1123}} or {{\(name) 'YYYY-MM-DD'}}")
            }
            rest = String(arguments.dropFirst(word.count))
        }
        return .datetime(style, try offset(rest.words[...]), isLocal: name == "$localDatetime")
    }

    private static func randomInt(_ bounds: [String]) throws(Defect) -> SystemVariable {
        if bounds.isEmpty { return .randomInt(0, 1_000) }
        guard bounds.count == 2, let lower = Int(bounds[0]), let upper = Int(bounds[1]), lower < upper else {
            throw Defect(
                "a random number needs two bounds, the lower one first", "write {{$randomInt 0 1000}}: below 1000")
        }
        return .randomInt(lower, upper)
    }

    private static func randomFloat(_ bounds: [String]) throws(Defect) -> SystemVariable {
        if bounds.isEmpty { return .randomFloat(0, 1_000) }
        guard bounds.count == 2, let lower = Double(bounds[0]), let upper = Double(bounds[1]),
            lower < upper, (upper - lower).isFinite
        else {
            throw Defect(
                "a random number needs two bounds, the lower one first", "write {{$random.float(0, 1.5)}}: below 1.5")
        }
        return .randomFloat(lower, upper)
    }

    private static func randomText(_ alphabet: String, _ source: String) throws(Defect) -> SystemVariable {
        guard let argument = arguments(source).first, let count = Int(argument), (1...10_000).contains(count) else {
            throw Defect(
                "\(source.shown) needs a number of characters", "write {{\(source.prefix { $0 != "(" })(12)}}")
        }
        return .randomText(alphabet, count: count)
    }

    /// The arguments in parentheses, separated by commas.
    private static func arguments(_ source: String) -> [String] {
        guard let open = source.firstIndex(of: "("), source.last == ")" else { return [] }
        return source[source.index(after: open)...].dropLast().split(separator: ",").map(\.trimmed)
    }

    private static func isIndirect(_ words: [String]) -> Bool { words.count > 1 && words[1].hasPrefix("%") }

    private static func name(_ words: [String]) throws(Defect) -> String {
        let name = words.count == 2 ? words[1].drop { $0 == "%" } : ""
        guard !name.isEmpty else {
            throw Defect("\(words[0]) needs the name of one variable", "write {{\(words[0]) NAME}}")
        }
        return String(name)
    }
}
