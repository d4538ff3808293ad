import Foundation

// Environment values are looked up during planning. Others are computed when a request is built, or once for each run
// if they are part of a variable of the file.
package enum SystemVariable: Hashable, Sendable {
    package struct Offset: Hashable, Sendable {
        package var count: Int
        package var unit: String
    }

    case uuid
    case timestamp(Offset?)
    case datetime(DateStyle, Offset?, isLocal: Bool)
    /// A random integer of at least the first number, and less than the second.
    case randomInt(Int, Int)
    case randomText(String, count: Int)
    case randomFloat(Double, Double)
    case randomWords(RandomWords)
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
        case "$timestamp": self = .timestamp(try Self.offset(words.dropFirst()))
        case "$isoTimestamp": self = .datetime(.iso8601, nil, isLocal: false)
        case "$datetime", "$localDatetime": self = try Self.datetime(source.dropFirst(name.count).trimmed, name)
        case "$randomInt": self = try Self.randomInt(words.dropFirst().map { $0 })
        case "$random.integer": self = try Self.randomInt(Self.arguments(source))
        case "$random.float": self = try Self.randomFloat(Self.arguments(source))
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
            if let words = RandomWords(variable: name) {
                self = .randomWords(words)
                return
            }
            let near = Self.names.first { $0.isOneSlip(from: name) }.map { "did you mean {{\($0)}}?" }
            throw Defect(
                "unknown variable \(name)", near ?? "the variables are \(Self.names.joined(separator: ", "))")
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
        case .randomInt(let lower, let upper): return String(Int.random(in: lower..<upper))
        case .randomFloat(let lower, let upper): return String(Double.random(in: lower..<upper))
        case .randomWords(let words): return words.text()
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
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .current
        let (component, factor): (Calendar.Component, Int) =
            switch unit {
            case "y": (.year, 1)
            case "Q": (.month, 3)
            case "M": (.month, 1)
            case "w": (.day, 7)
            case "d": (.day, 1)
            case "h": (.hour, 1)
            case "m": (.minute, 1)
            default: (.second, 1)
            }
        if unit == "ms" { return date.addingTimeInterval(Double(count) / 1_000) }
        return calendar.date(byAdding: component, value: count * factor, to: date) ?? date
    }
}

/// The names are those of JetBrains' HTTP Client, which uses the library Datafaker.
package enum RandomWords: String, Hashable, Sendable {
    case boolean = "bool.bool"
    case firstName = "name.firstName"
    case lastName = "name.lastName"
    case fullName = "name.fullName"
    case userName = "internet.username"
    case email = "internet.emailAddress"
    case domain = "internet.domainName"
    case url = "internet.url"
    case ipv4 = "internet.ipV4Address"
    case company = "company.name"
    case city = "address.city"
    case country = "address.country"
    case street = "address.streetAddress"
    case zipCode = "address.zipCode"
    case phone = "phoneNumber.phoneNumber"
    case digit = "number.randomDigit"
    case word = "lorem.word"
    case sentence = "lorem.sentence"

    private static let shortNames: [String: RandomWords] = [
        "email": .email, "boolean": .boolean, "name.name": .fullName, "name.username": .userName,
        "address.cityName": .city, "phoneNumber.cellPhone": .phone, "internet.url": .url,
    ]

    init?(variable name: String) {
        guard name.hasPrefix("$random.") else { return nil }
        let kind = String(name.dropFirst(8))
        guard let words = Self.shortNames[kind] ?? RandomWords(rawValue: kind) else { return nil }
        self = words
    }

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

    /// Makes a random text; its domains are below `example.com`, which is reserved (RFC 2606).
    func text() -> String {
        func one(_ words: [String]) -> String { words.randomElement() ?? "" }
        let (first, last, number) = (one(Self.firstNames), one(Self.lastNames), Int.random(in: 1...9_999))
        let user = "\(first).\(last)\(number)".lowercased()
        switch self {
        case .boolean: return number.isMultiple(of: 2) ? "true" : "false"
        case .firstName: return first
        case .lastName: return last
        case .fullName: return "\(first) \(last)"
        case .userName: return user
        case .email: return "\(user)@example.com"
        case .domain: return "\(last.lowercased())\(number).example.com"
        case .url: return "https://\(last.lowercased())\(number).example.com"
        // An address of a network for examples (RFC 5737).
        case .ipv4: return "192.0.2.\(number % 254 + 1)"
        case .company: return "\(last) and \(one(Self.lastNames))"
        case .city: return one(Self.cities)
        case .country: return one(Self.countries)
        case .street: return "\(number % 200 + 1) \(one(Self.streets))"
        case .zipCode: return String(10_000 + number * 8)
        case .phone: return "+1-555-01\(10 + number % 90)"
        case .digit: return String(number % 10)
        case .word: return one(Self.latin)
        case .sentence:
            let words = (0..<6).map { _ in one(Self.latin) }.joined(separator: " ")
            return words.prefix(1).uppercased() + words.dropFirst() + "."
        }
    }
}
