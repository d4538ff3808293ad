import Foundation

// Environment values are looked up during planning. Others are computed when a request is built, or once for each run
// if they are part of a variable of the file.
package enum SystemVariable: Hashable, Sendable {
    /// Without a component, `count` is a number of milliseconds.
    package struct Offset: Hashable, Sendable {
        var component: Calendar.Component?
        var count: Int
    }

    case uuid
    case timestamp(Offset?)
    case datetime(DateStyle, Offset?, isLocal: Bool)
    case randomInt(Range<Int>)
    case randomText(String, count: Int)
    case randomFloat(Range<Double>)
    case randomWords(String)
    /// If `isIndirect`, the name is the value of another variable. If `isFile`, the value stands in the file `.env`.
    case environment(String, isIndirect: Bool, isFile: Bool)

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
        case "$timestamp": self = .timestamp(try Self.offset(Array(words.dropFirst())))
        case "$isoTimestamp": self = .datetime(.iso8601, nil, isLocal: false)
        case "$datetime", "$localDatetime": self = try Self.datetime(source.dropFirst(name.count).trimmed, name)
        case "$randomInt", "$random.integer":
            let bounds = name == "$randomInt" ? Array(words.dropFirst()) : Self.arguments(source)
            self = .randomInt(try Self.range(bounds, "{{$randomInt 0 1000}}: below 1000"))
        case "$random.float":
            self = .randomFloat(try Self.range(Self.arguments(source), "{{$random.float(0, 1.5)}}: below 1.5"))
        case "$random.alphabetic": self = try Self.randomText(Self.letters, source)
        case "$random.alphanumeric": self = try Self.randomText(Self.letters + "0123456789", source)
        case "$random.hexadecimal": self = try Self.randomText("0123456789abcdef", source)
        case "$processEnv", "$dotenv":
            let asked = words.count == 2 ? words[1].drop { $0 == "%" } : ""
            guard !asked.isEmpty else {
                throw Defect("\(name) needs the name of one variable", "write {{\(name) NAME}}")
            }
            self = .environment(String(asked), isIndirect: words[1].hasPrefix("%"), isFile: name == "$dotenv")
        case _ where name.hasPrefix("$env.") && name.count > 5:
            self = .environment(String(name.dropFirst(5)), isIndirect: false, isFile: false)
        case "$aadToken", "$aadV2Token", "$oidcAccessToken", "$auth.token", "$auth.idToken":
            throw Defect(
                "\(name) needs a person to log in",
                "get the token with a request of the file, or give it with --variable", kind: .impossible)
        case "$input", "$password", "$pick", "$prompt", "$input-askonce", "$password-askonce", "$pick-askonce":
            throw Defect(
                "\(name) needs input from a terminal", "write {{x}}, and give the value with --variable x=…",
                kind: .impossible)
        default:
            if name.hasPrefix("$random."), RandomWords.text(String(name.dropFirst(8))) != nil {
                self = .randomWords(String(name.dropFirst(8)))
                return
            }
            let near = Self.names.first { $0.isOneSlip(from: name) }.map { "did you mean {{\($0)}}?" }
            throw Defect(
                "unknown variable \(name)", near ?? "the variables are \(Self.names.joined(separator: ", "))")
        }
    }

    private static let units: KeyValuePairs<String, (component: Calendar.Component?, factor: Int)> = [
        "y": (.year, 1), "Q": (.month, 3), "M": (.month, 1), "w": (.day, 7), "d": (.day, 1), "h": (.hour, 1),
        "m": (.minute, 1), "s": (.second, 1), "ms": (nil, 1),
    ]

    private static func offset(_ words: [String]) throws(Defect) -> Offset? {
        guard let first = words.first else { return nil }
        let names = units.map(\.key).joined(separator: " ")
        guard words.count == 2, let last = words.last, let count = Int(first), count.magnitude < 1_000_000_000 else {
            throw Defect(
                "\(words.joined(separator: " ").shown) is not a time to add or subtract",
                "write a number and one of \(names): -1 d")
        }
        guard let unit = units.first(where: { $0.key == last })?.value else {
            throw Defect("\(last.shown) is not a unit of time", "write one of \(names)")
        }
        return Offset(component: unit.component, count: count * unit.factor)
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
        return .datetime(style, try offset(rest.words), isLocal: name == "$localDatetime")
    }

    private static func range<Number: Comparable & LosslessStringConvertible & ExpressibleByIntegerLiteral>(
        _ bounds: [String], _ example: String
    ) throws(Defect) -> Range<Number> {
        if bounds.isEmpty { return 0..<1_000 }
        // The width of a range of `Double` must be finite, or no random number can be made.
        guard bounds.count == 2, let lower = Number(bounds[0]), let upper = Number(bounds[1]), lower < upper,
            let first = Double(bounds[0]), let last = Double(bounds[1]), (last - first).isFinite
        else { throw Defect("a random number needs two bounds, the lower one first", "write \(example)") }
        return lower..<upper
    }

    private static func randomText(_ alphabet: String, _ source: String) throws(Defect) -> SystemVariable {
        guard let argument = arguments(source).first, let count = Int(argument), (1...10_000).contains(count) else {
            throw Defect("\(source.shown) needs a number of characters", "write {{\(source.prefix { $0 != "(" })(12)}}")
        }
        return .randomText(alphabet, count: count)
    }

    private static func arguments(_ source: String) -> [String] {
        guard let open = source.firstIndex(of: "("), source.last == ")" else { return [] }
        return source[source.index(after: open)...].dropLast().split(separator: ",").map(\.trimmed)
    }

    func value(at date: Date) -> String? {
        switch self {
        case .uuid: return UUID().uuidString.lowercased()
        case .timestamp(let offset):
            return String(Int64((offset?.date(from: date) ?? date).timeIntervalSince1970.rounded(.down)))
        case .datetime(let style, let offset, let isLocal):
            let zone = isLocal ? TimeZone.current : TimeZone(secondsFromGMT: 0) ?? .current
            return style.text(of: offset?.date(from: date) ?? date, in: zone)
        case .randomInt(let range): return String(Int.random(in: range))
        case .randomFloat(let range): return String(Double.random(in: range))
        case .randomWords(let kind): return RandomWords.text(kind)
        case .randomText(let alphabet, let count):
            return String((0..<count).compactMap { _ in alphabet.randomElement() })
        case .environment: return nil
        }
    }
}

package enum DateStyle: Hashable, Sendable {
    case iso8601, rfc1123
    case custom(String)

    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]
    private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    /// The tokens of a format, the longest first, so that a token is not read as two shorter tokens.
    private static let tokens = [
        "YYYY", "MMMM", "dddd", "MMM", "ddd", "SSS", "YY", "MM", "DD", "dd", "HH", "hh", "mm", "ss", "ZZ", "M", "D",
        "d", "H", "h", "m", "s", "Z", "A", "a",
    ]

    func text(of date: Date, in zone: TimeZone) -> String {
        let isUTC = zone.secondsFromGMT(for: date) == 0
        return switch self {
        case .iso8601: Self.text(of: date, "YYYY-MM-DDTHH:mm:ss" + (isUTC ? ".SSS[Z]" : "Z"), zone)
        case .rfc1123: Self.text(of: date, "ddd, DD MMM YYYY HH:mm:ss " + (isUTC ? "[GMT]" : "ZZ"), zone)
        case .custom(let format): Self.text(of: date, format, zone)
        }
    }

    private static func text(of date: Date, _ format: String, _ zone: TimeZone) -> String {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        let parts = calendar.dateComponents(
            [.year, .month, .day, .hour, .minute, .second, .nanosecond, .weekday], from: date)
        var (result, rest) = ("", format[...])
        while let first = rest.first {
            if first == "[", let end = rest.firstIndex(of: "]") {
                result += rest[rest.index(after: rest.startIndex)..<end]
                rest = rest[rest.index(after: end)...]
            } else if let token = tokens.first(where: { rest.hasPrefix($0) }) {
                result += value(of: token, parts, zone.secondsFromGMT(for: date))
                rest = rest.dropFirst(token.count)
            } else {
                result.append(first)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    private static func value(of token: String, _ parts: DateComponents, _ offset: Int) -> String {
        func digits(_ number: Int?, _ count: Int) -> String {
            let text = String(number ?? 0)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        func name(_ names: [String], _ number: Int?, _ count: Int) -> String {
            guard let number, names.indices.contains(number - 1) else { return "" }
            return String(names[number - 1].prefix(count))
        }
        let hour = parts.hour ?? 0
        let sign = offset < 0 ? "-" : "+"
        let (hours, minutes) = (digits(abs(offset) / 3_600, 2), digits(abs(offset) / 60 % 60, 2))
        switch token {
        case "YYYY": return digits(parts.year, 4)
        case "YY": return digits((parts.year ?? 0) % 100, 2)
        case "MMMM": return name(months, parts.month, .max)
        case "MMM": return name(months, parts.month, 3)
        case "MM", "M": return digits(parts.month, token.count)
        case "DD", "D": return digits(parts.day, token.count)
        case "dddd": return name(days, parts.weekday, .max)
        case "ddd", "dd": return name(days, parts.weekday, token.count)
        case "d": return digits((parts.weekday ?? 1) - 1, 1)
        case "HH", "H": return digits(hour, token.count)
        case "hh", "h": return digits((hour + 11) % 12 + 1, token.count)
        case "mm", "m": return digits(parts.minute, token.count)
        case "ss", "s": return digits(parts.second, token.count)
        case "SSS": return digits((parts.nanosecond ?? 0) / 1_000_000, 3)
        case "A": return hour < 12 ? "AM" : "PM"
        case "a": return hour < 12 ? "am" : "pm"
        case "Z": return "\(sign)\(hours):\(minutes)"
        default: return "\(sign)\(hours)\(minutes)"
        }
    }
}

extension SystemVariable.Offset {
    func date(from date: Date) -> Date {
        guard let component else { return date.addingTimeInterval(Double(count) / 1_000) }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .current
        return calendar.date(byAdding: component, value: count, to: date) ?? date
    }
}

/// The kinds are those of JetBrains' HTTP Client, which uses the library Datafaker.
enum RandomWords {
    private static let firstNames = [
        "Ada", "Alan", "Barbara", "Claude", "Dennis", "Edsger", "Frances", "Grace", "Hedy", "Ida", "John", "Katherine",
    ]
    private static let lastNames = [
        "Allen", "Hopper", "Johnson", "Knuth", "Lamarr", "Liskov", "Lovelace", "Ritchie", "Rhodes", "Shannon", "Turing",
    ]
    private static let cities = ["Amsterdam", "Bergen", "Cork", "Lisbon", "Lyon", "Osaka", "Oslo", "Porto", "Turin"]
    private static let countries = ["France", "Iceland", "Ireland", "Italy", "Japan", "Norway", "Portugal"]
    private static let streets = [
        "Birch Lane", "Church Street", "Elm Street", "Harbour Road", "Mill Lane", "Park Avenue",
    ]
    private static let latin = ["amet", "dolor", "elit", "ipsum", "lorem", "magna", "sed", "sit", "tempor", "ut"]

    /// The domains are below `example.com`, which is reserved (RFC 2606).
    static func text(_ kind: String) -> String? {
        func one(_ words: [String]) -> String { words.randomElement() ?? "" }
        let (first, last, number) = (one(firstNames), one(lastNames), Int.random(in: 1...9_999))
        let user = "\(first).\(last)\(number)".lowercased()
        switch kind {
        case "boolean", "bool.bool": return number.isMultiple(of: 2) ? "true" : "false"
        case "name.firstName": return first
        case "name.lastName": return last
        case "name.fullName", "name.name": return "\(first) \(last)"
        case "internet.username", "name.username": return user
        case "email", "internet.emailAddress": return "\(user)@example.com"
        case "internet.domainName": return "\(last.lowercased())\(number).example.com"
        case "internet.url": return "https://\(last.lowercased())\(number).example.com"
        // An address of a network for examples (RFC 5737).
        case "internet.ipV4Address": return "192.0.2.\(number % 254 + 1)"
        case "company.name": return "\(last) and \(one(lastNames))"
        case "address.city", "address.cityName": return one(cities)
        case "address.country": return one(countries)
        case "address.streetAddress": return "\(number % 200 + 1) \(one(streets))"
        case "address.zipCode": return String(10_000 + number * 8)
        case "phoneNumber.phoneNumber", "phoneNumber.cellPhone": return "+1-555-01\(10 + number % 90)"
        case "number.randomDigit": return String(number % 10)
        case "lorem.word": return one(latin)
        case "lorem.sentence":
            let words = (0..<6).map { _ in one(latin) }.joined(separator: " ")
            return words.prefix(1).uppercased() + words.dropFirst() + "."
        default: return nil
        }
    }
}
