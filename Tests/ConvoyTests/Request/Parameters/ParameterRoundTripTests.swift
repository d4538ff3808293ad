import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests that an independent reader restores random parameters that were encoded with random options.
@Suite(.serialized) struct ParameterRoundTripTests {
    // MARK: Random parameters

    private static let texts = [
        "a[b]", "[]", "]", "[", "a.b", ".", "", "a[0]",
        "a", "b", "0", "name", "a b", " ", "+", "a+b", "%", "%41", "100%", "&", "a&b", "=", "a=b=", "#", "?/", ";",
        "\0",
        "\r\n", "\t", "\u{7F}", "ü", "日本", "😃", "👩‍👩‍👧", "e\u{301}", "\u{202E}abc\u{202C}", "العربية", "\u{FEFF}",
        "\u{10FFFF}", "\"'<>\\^`{|}", "!$()*,:@", "-._~", "true", "null",
    ]

    private struct Maker {
        var generator: SeededGenerator

        init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

        mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[number(choices.count)] }
        mutating func number(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }

        mutating func dictionary(_ depth: Int) -> ParameterValue {
            var values: [String: ParameterValue] = [:]
            for _ in 0..<number(5) { values[pick(ParameterRoundTripTests.texts)] = value(depth - 1) }
            return .dictionary(values)
        }

        mutating func value(_ depth: Int) -> ParameterValue {
            switch number(depth > 0 ? 13 : 7) {
            case 0: return .null
            case 1: return .bool(number(2) == 0)
            case 2: return .integer(Int.random(in: .min ... .max, using: &generator))
            case 3: return .double(Double(number(1 << 20)) / 8 - 1_000)
            case 4: return .date(Date(timeIntervalSinceReferenceDate: Double(number(1 << 30)) / 4))
            case 5: return .data(Data((0..<number(5)).map { _ in UInt8(number(256)) }))
            case 6, 7: return .string(pick(ParameterRoundTripTests.texts))
            case 8, 9, 10: return .array((0..<number(4)).map { _ in value(depth - 1) })
            default: return dictionary(depth)
            }
        }
    }

    private static func randomEncoding(_ maker: inout Maker) -> ParameterEncoding {
        ParameterEncoding(
            alphabetizeKeyValuePairs: maker.pick([true, false]),
            arrayEncoding: maker.pick([.brackets, .noBrackets, .indexInBrackets]),
            boolEncoding: maker.pick([.numeric, .literal]),
            dateEncoding: maker.pick([.deferredToDate, .secondsSince1970, .millisecondsSince1970, .iso8601]),
            emptyEncoding: maker.pick([.dropKey, .dropValue]),
            keyEncoding: maker.pick([.useDefaultKeys, .useDefaultKeys, .custom { "(\($0))" }]),
            keyPathEncoding: maker.pick([.brackets, .dots]),
            nilEncoding: maker.pick([.dropKey, .dropValue, .null, .custom("nothing at all")]),
            spaceEncoding: maker.pick([.percentEscaped, .plusReplaced]))
    }

    // MARK: Expected results

    /// The text of a value without children; nil if it is omitted.
    private static func leaf(_ value: ParameterValue, _ encoding: ParameterEncoding) -> String? {
        switch value {
        case .null:
            encoding.nilEncoding == .custom("nothing at all")
                ? "nothing at all"
                : encoding.nilEncoding == .null ? "null" : encoding.nilEncoding == .dropValue ? "" : nil
        case .bool(let flag): encoding.boolEncoding == .literal ? "\(flag)" : flag ? "1" : "0"
        case .integer(let number): "\(number)"
        case .double(let number): "\(number)"
        case .string(let text): text
        case .data(let data): data.base64EncodedString()
        case .date(let date):
            switch encoding.dateEncoding {
            case .secondsSince1970: "\(date.timeIntervalSinceReferenceDate + 978_307_200)"
            case .millisecondsSince1970: "\((date.timeIntervalSinceReferenceDate + 978_307_200) * 1_000)"
            case .iso8601: ISO8601DateFormatter().string(from: date)
            default: "\(date.timeIntervalSinceReferenceDate)"
            }
        case .array, .dictionary: encoding.emptyEncoding == .dropValue ? "" : nil
        }
    }

    private static func children(_ value: ParameterValue) -> [(step: String?, value: ParameterValue)] {
        switch value {
        case .array(let values): values.map { (nil, $0) }
        case .dictionary(let values): values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        default: []
        }
    }

    /// The pairs of parameters in the order of encoding, without recursion.
    private static func pairs(of root: ParameterValue, _ encoding: ParameterEncoding) -> [DecodedForm.Pair] {
        var pairs: [DecodedForm.Pair] = []
        var waiting: [(key: String?, value: ParameterValue)] = [(nil, root)]
        while let (key, value) = waiting.popLast() {
            let below = children(value)
            if below.isEmpty, let key, let text = leaf(value, encoding) {
                pairs.append(.init(key: encoding.keyEncoding == .useDefaultKeys ? key : "(\(key))", value: text))
            }
            for (index, child) in below.enumerated().reversed() {
                let childKey: String
                switch (child.step, key) {
                case (let step?, let key?):
                    childKey = encoding.keyPathEncoding == .dots ? "\(key).\(step)" : "\(key)[\(step)]"
                case (let step?, nil): childKey = step
                case (nil, let key):
                    let key = key ?? ""
                    childKey =
                        encoding.arrayEncoding == .brackets
                        ? "\(key)[]" : encoding.arrayEncoding == .noBrackets ? key : "\(key)[\(index)]"
                }
                waiting.append((childKey, child.value))
            }
        }
        return pairs
    }

    // MARK: Tests

    @Test func pairsComeBack() throws {
        for seed in 0..<LongRuns.count(1_500, long: 10_000) {
            var maker = Maker(seed: UInt64(seed))
            let (parameters, encoding) = (maker.dictionary(4), Self.randomEncoding(&maker))
            let text = try encoding.encode(parameters)
            let decoded = try DecodedForm(text, readsPlusAsSpace: encoding.spaceEncoding == .plusReplaced).pairs
            let expected = Self.pairs(of: parameters, encoding)
            if encoding.alphabetizeKeyValuePairs {
                #expect(decoded.sorted() == expected.sorted(), "seed \(seed)")
            } else {
                #expect(decoded == expected, "seed \(seed)")
            }
        }
    }
}

/// The pairs of a query or a form, unescaped.
struct DecodedForm {
    struct Pair: Hashable, Comparable {
        let key: String
        let value: String

        static func < (left: Pair, right: Pair) -> Bool { (left.key, left.value) < (right.key, right.value) }
    }

    let pairs: [Pair]

    private static let unescaped = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?")

    /// Reads a form strictly: its texts may contain only unreserved characters, `/`, `?` and upper-case escapes.
    ///
    /// A `+` is also permitted if it stands for a space.
    init(_ text: String, readsPlusAsSpace: Bool) throws {
        pairs = try text.split(separator: "&", omittingEmptySubsequences: text.isEmpty).map { pair in
            let sides = try pair.components(separatedBy: "=").map { side in
                let escaped = readsPlusAsSpace ? side.replacing("+", with: "%20") : side
                // `removingPercentEncoding` drops a byte order mark.
                let parts = escaped.split(separator: "%", omittingEmptySubsequences: false)
                let bytes = parts.dropFirst().reduce(into: Array(parts[0].utf8)) { bytes, part in
                    bytes += [UInt8(part.prefix(2), radix: 16) ?? 0] + part.dropFirst(2).utf8
                }
                let text = try #require(String(validating: bytes, as: UTF8.self))
                let isStrict = text.addingPercentEncoding(withAllowedCharacters: Self.unescaped) == escaped
                try #require(isStrict, "\(side) is not escaped as it must be")
                return text
            }
            try #require(sides.count == 2, "\(pair) has not one equals sign")
            return Pair(key: sides[0], value: sides[1])
        }
    }
}
