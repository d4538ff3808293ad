// `{{$random.name.firstName}}`: random names, addresses, numbers and words.

/// A kind of random words.
///
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

    /// Makes a kind from the name of a variable, such as `$random.name.firstName`; nil for an unknown name.
    ///
    /// The name excludes the parentheses of a call.
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
    func text(using generator: inout some RandomNumberGenerator) -> String {
        func one(_ words: [String], _ generator: inout some RandomNumberGenerator) -> String {
            words.randomElement(using: &generator) ?? ""
        }
        let (first, last) = (one(Self.firstNames, &generator), one(Self.lastNames, &generator))
        let number = Int.random(in: 1...9_999, using: &generator)
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
        case .company: return "\(last) and \(one(Self.lastNames, &generator))"
        case .city: return one(Self.cities, &generator)
        case .country: return one(Self.countries, &generator)
        case .street: return "\(number % 200 + 1) \(one(Self.streets, &generator))"
        case .zipCode: return String(10_000 + number * 8)
        case .phone: return "+1-555-01\(10 + number % 90)"
        case .digit: return String(number % 10)
        case .word: return one(Self.latin, &generator)
        case .sentence:
            let words = (0..<6).map { _ in one(Self.latin, &generator) }.joined(separator: " ")
            return words.prefix(1).uppercased() + words.dropFirst() + "."
        }
    }
}
