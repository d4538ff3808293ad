import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct ParameterEncodingTests {
    @Test(arguments: EncodedCase.alamofire + EncodedCase.others)
    func textIsThatOfAlamofireAndLosesNothing(_ known: EncodedCase) throws {
        #expect(try known.encoding.encode(known.parameters) == known.text)
    }

    private enum Filter: Encodable {
        case everything
        case tagged(String)
    }

    @Test func emptyContainersCanBeRefused() {
        let encoding = ParameterEncoding(emptyEncoding: .refuse)
        let error = #expect(throws: EncodingError.self) { try encoding.encode(["a": [["b": [] as [Int]]]]) }
        #expect(error?.reason == "a[0].b: it is empty")
        // A case without associated values encodes itself as an empty dictionary.
        #expect(throws: EncodingError.self) { try encoding.encode(["filter": Filter.everything]) }
        #expect(throws: Never.self) { try encoding.encode(["filter": Filter.tagged("a")]) }
        #expect(throws: Never.self) { try encoding.encode(["a": [nil, 1]]) }
        #expect((try? encoding.encode([:] as [String: Int])) == "")
    }

    @Test func encodingsAreEqualWhenTheirOptionsAre() {
        #expect(ParameterEncoding() == .default)
        #expect(ParameterEncoding(keyEncoding: .uppercased) == ParameterEncoding(keyEncoding: .uppercased))
        #expect(ParameterEncoding(keyEncoding: .uppercased) != ParameterEncoding(keyEncoding: .lowercased))
        #expect(ParameterEncoding(nilEncoding: .custom("")) != ParameterEncoding(nilEncoding: .dropValue))
        let custom = ParameterEncoding(keyEncoding: .custom { $0 })
        let copy = custom
        #expect(custom == copy)
        #expect(custom.hashValue == copy.hashValue)
        #expect(custom != ParameterEncoding(keyEncoding: .custom { $0 }))
    }

    /// Tests thousands of keys and elements.
    ///
    /// In quadratic time the test would take minutes.
    @Test(.timeLimit(.minutes(5))) func costIsNearlyLinear() throws {
        let many = Dictionary(uniqueKeysWithValues: (0..<30_000).map { ("\($0)", [$0]) })
        let text = try ParameterEncoding.default.encode(many)
        #expect(text.utf8.count(where: { $0 == UInt8(ascii: "=") }) == 30_000)
        let wide = try ParameterEncoding.default.encode(["a": Array(0..<30_000)])
        #expect(wide.hasSuffix("=29999"))
    }
}

@Suite struct ParameterEncoderTests {
    /// A value that is encoded by a function, to use containers in every possible way.
    struct ByHand: Encodable {
        let encode: (any Encoder) throws -> Void

        func encode(to encoder: any Encoder) throws { try encode(encoder) }
    }

    enum Key: String, CodingKey {
        case a
        case b
        case c
    }

    private func keyed(_ encode: @escaping (inout KeyedEncodingContainer<Key>) throws -> Void) -> ByHand {
        ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try encode(&container)
        }
    }

    /// The encoded text with unescaped brackets.
    private func text(
        _ value: some Encodable, _ encoding: ParameterEncoding = .init(alphabetizeKeyValuePairs: false)
    ) throws -> String {
        try #require(encoding.encode(value).removingPercentEncoding)
    }

    private func reason(_ value: some Encodable, _ encoding: ParameterEncoding = .default) throws -> String {
        let error = #expect(throws: EncodingError.self) { try encoding.encode(value) }
        return try #require(error?.reason)
    }

    private class Animal: Encodable {
        var name = "Rex"
        var legs = 4
    }

    private final class Dog: Animal {
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(true, forKey: .a)
            try super.encode(to: container.superEncoder())
        }
    }

    private final class SharingDog: Animal {
        override func encode(to encoder: any Encoder) throws {
            try super.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encode("yes", forKey: .a)
        }
    }

    /// The properties of a superclass are beside those of the subclass, as in Alamofire.
    @Test func superclassGoesBesideItsSubclass() throws {
        #expect(try text(Dog()) == "a=1&name=Rex&legs=4")
        #expect(try text(Dog(), .default) == "a=1&legs=4&name=Rex")
        #expect(try text(["dogs": [Dog()]]) == "dogs[][a]=1&dogs[][name]=Rex&dogs[][legs]=4")
        #expect(try text(SharingDog()) == "name=Rex&legs=4&a=yes")
        let underAKey = keyed { try Animal().encode(to: $0.superEncoder(forKey: .b)) }
        #expect(try text(underAKey) == "b[name]=Rex&b[legs]=4")
        let inAnArray = keyed { container in
            var list = container.nestedUnkeyedContainer(forKey: .a)
            try list.encode(1)
            try Animal().encode(to: list.superEncoder())
            #expect(list.count == 2)
        }
        #expect(try text(inAnArray) == "a[]=1&a[][name]=Rex&a[][legs]=4")
        let withoutKeys = keyed { container in
            try container.encode(1, forKey: .a)
            var single = container.superEncoder().singleValueContainer()
            try single.encode(2)
        }
        #expect(try text(withoutKeys) == "a=1&super=2")
        for inherit in [{ _ in }, { _ = $0.container(keyedBy: Key.self) }] as [(any Encoder) -> Void] {
            let withoutValues = keyed { container in
                inherit(container.superEncoder())
                try container.encode(1, forKey: .a)
            }
            #expect(try text(withoutValues, .init(emptyEncoding: .dropValue)) == "a=1")
        }
    }

    @Test func superclassMayNotHideAKeyOfItsSubclass() throws {
        let value = keyed { container in
            try container.encode(1, forKey: .a)
            var inherited = container.superEncoder().container(keyedBy: Key.self)
            try inherited.encode(2, forKey: .a)
        }
        #expect(try reason(["x": [value]]) == "x[0].a: a class and its superclass both encode this key")
    }

    private struct Optionals: Encodable {
        var bool: Bool?
        var string: String?
        var double: Double?
        var float: Float?
        var int: Int?
        var int8: Int8?
        var int16: Int16?
        var int32: Int32?
        var int64: Int64?
        var int128: Int128?
        var uint: UInt?
        var uint8: UInt8?
        var uint16: UInt16?
        var uint32: UInt32?
        var uint64: UInt64?
        var uint128: UInt128?
        var date: Date?
        var list: [Int]?
    }

    @Test func everyOptionalCanBeSeenMissingAndHasAllItsDigits() throws {
        let names = Mirror(reflecting: Optionals()).children.compactMap(\.label)
        let encoding = ParameterEncoding(alphabetizeKeyValuePairs: false, nilEncoding: .null)
        #expect(try text(Optionals(), encoding) == names.map { "\($0)=null" }.joined(separator: "&"))
        #expect(try text(Optionals()) == "")
        let some = Optionals(
            bool: true, string: "a", double: 0.1, float: 0.1, int: .max, int8: .min, int16: .min, int32: .min,
            int64: .min, int128: .min, uint: .max, uint8: .max, uint16: .max, uint32: .max, uint64: .max, uint128: .max,
            date: Date(timeIntervalSinceReferenceDate: 3), list: [4])
        #expect(
            try text(some) == """
                bool=1&string=a&double=0.1&float=0.1&int=9223372036854775807&int8=-128&int16=-32768&int32=-2147483648&\
                int64=-9223372036854775808&int128=-170141183460469231731687303715884105728&\
                uint=18446744073709551615&uint8=255&uint16=65535&uint32=4294967295&uint64=18446744073709551615&\
                uint128=340282366920938463463374607431768211455&date=3.0&list[]=4
                """)
    }

    @Test func containersMayBeFilledInTurn() throws {
        let value = keyed { outer in
            var first = outer.nestedContainer(keyedBy: Key.self, forKey: .a)
            var list = outer.nestedUnkeyedContainer(forKey: .b)
            try first.encode(1, forKey: .a)
            try list.encode("x")
            var again = outer.nestedContainer(keyedBy: Key.self, forKey: .a)
            try again.encode(2, forKey: .b)
            try first.encode(3, forKey: .c)
            var inner = list.nestedUnkeyedContainer()
            try list.encodeNil()
            try inner.encode("y")
            var keyed = list.nestedContainer(keyedBy: Key.self)
            try keyed.encodeNil(forKey: .a)
            try outer.encode(4, forKey: .c)
            #expect(list.count == 4)
            #expect(list.codingPath.map(\.stringValue) == ["b"])
            #expect(keyed.codingPath.map(\.intValue) == [nil, 3])
        }
        let encoding = ParameterEncoding(
            alphabetizeKeyValuePairs: false, arrayEncoding: .indexInBrackets, nilEncoding: .null)
        #expect(try text(value, encoding) == "a[a]=1&a[b]=2&a[c]=3&b[0]=x&b[1][0]=y&b[2]=null&b[3][a]=null&c=4")
    }

    @Test func keyThatIsEncodedAgainKeepsItsPlaceAndTheNewValue() throws {
        let value = keyed { container in
            try container.encode([1, 2], forKey: .a)
            try container.encode(3, forKey: .b)
            try container.encode([4], forKey: .a)
        }
        #expect(try text(value) == "a[]=4&b=3")
    }

    @Test func placeWithTwoMeaningsIsAnError() throws {
        let objectAndArray = keyed { container in
            var keyed = container.nestedContainer(keyedBy: Key.self, forKey: .a)
            try keyed.encode(1, forKey: .b)
            var list = container.nestedUnkeyedContainer(forKey: .a)
            try list.encode(2)
        }
        #expect(try reason(objectAndArray) == "a: elements would replace a value that is already encoded")
        let valueAndObject = ByHand { encoder in
            var single = encoder.singleValueContainer()
            try single.encode(1)
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(2, forKey: .a)
        }
        #expect(
            try reason(["x": valueAndObject]) == "x: values with keys would replace a value that is already encoded")
        let twoValues = ByHand { encoder in
            var single = encoder.singleValueContainer()
            try single.encode(1)
            try single.encode(2)
        }
        #expect(try reason(["x": twoValues]) == "x: a single value would replace a value that is already encoded")
    }

    struct Refusal: Error {}

    @Test func aValueWithoutAKeyIsAnError() throws {
        for reason in try [reason([1]), reason("a"), reason(1.5), reason([] as [Int]), reason(true)] {
            #expect(reason == #"it has no key: put it into a dictionary, ["name": value]"#)
        }
    }

    @Test func errorsNameTheirKeyPath() throws {
        let failing = ByHand { _ in throw Refusal() }
        let error = #expect(throws: EncodingError.self) {
            try ParameterEncoding.default.encode(["user": ["first name": [1: [failing]]]])
        }
        #expect(error?.reason == #"user["first name"][1][0]: Refusal()"#)
        if case .invalidValue(_, let context)? = error { #expect(context.underlyingError is Refusal) }
        let dates = ParameterEncoding(dateEncoding: .custom { _ in throw Refusal() })
        #expect(try reason(["a": ["b": Date()]], dates) == "a.b: Refusal()")
        let data = ParameterEncoding(dataEncoding: .custom { _ in throw Refusal() })
        #expect(try reason(["a": [Data()]], data) == "a[0]: Refusal()")
    }

    /// Dictionaries and arrays in each other, in turn.
    private struct Nested: Encodable {
        let levels: Int

        func encode(to encoder: any Encoder) throws {
            if levels == 0 {
                var container = encoder.singleValueContainer()
                try container.encode(1)
            } else if levels.isMultiple(of: 2) {
                var container = encoder.unkeyedContainer()
                try container.encode(Nested(levels: levels - 1))
            } else {
                var container = encoder.container(keyedBy: ParameterKey.self)
                try container.encode(Nested(levels: levels - 1), forKey: ParameterKey(stringValue: "k"))
            }
        }
    }

    @Test func depthIsBounded() async throws {
        // The numbers are odd, so that the outermost value is a dictionary.
        let encoding = ParameterEncoding(arrayEncoding: .noBrackets, keyPathEncoding: .custom { _ in "" })
        let text = await onSmallStack { try? encoding.encode(Nested(levels: 127)) }
        #expect(text == "k=1")
        let failure = await onSmallStack { Result { try encoding.encode(Nested(levels: 129)) }.failure }
        let error = try #require(failure as? EncodingError)
        #expect(error.reason.hasPrefix("k[0].k[0]"))
        #expect(error.reason.hasSuffix(": it is nested too deeply, or contains itself"))
        #expect(error.reason.count < 200)
    }

    private final class Cycle: Encodable {
        enum Way: CaseIterable {
            case values
            case single
            case superEncoders
        }

        let way: Way

        init(_ way: Way) { self.way = way }

        func encode(to encoder: any Encoder) throws {
            switch way {
            case .values:
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(self, forKey: .a)
            case .single:
                var container = encoder.singleValueContainer()
                try container.encode(self)
            case .superEncoders:
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(1, forKey: .b)
                try encode(to: container.superEncoder(forKey: .a))
            }
        }
    }

    @Test(arguments: Cycle.Way.allCases)
    private func cycleIsAnError(_ way: Cycle.Way) async throws {
        let failure = await onSmallStack { Result { try ParameterEncoding.default.encode(["x": Cycle(way)]) }.failure }
        let error = try #require(failure as? EncodingError)
        #expect(error.reason.contains("nested too deep"))
        #expect(error.reason.hasPrefix("x"))
    }

    @Test func containersWithoutEndAreAnError() throws {
        let value = keyed { container in
            for _ in 0..<100_000 { container = container.nestedContainer(keyedBy: Key.self, forKey: .a) }
        }
        #expect(try reason(value).contains("nested too deep"))
    }

    /// Runs a function on a thread with a stack of a mebibyte.
    ///
    /// An optimised build needs a fifth of that stack. Threads on Apple's systems have half a mebibyte.
    private func onSmallStack<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            let thread = Thread { continuation.resume(returning: body()) }
            thread.stackSize = 1 << 20
            thread.start()
        }
    }
}

struct EncodedCase: Sendable, CustomTestStringConvertible {
    let parameters: any Encodable & Sendable
    let encoding: ParameterEncoding
    let text: String

    var testDescription: String { text.count > 60 ? text.prefix(60) + "…" : text }

    init(_ parameters: any Encodable & Sendable, _ encoding: ParameterEncoding, _ text: String) {
        (self.parameters, self.encoding, self.text) = (parameters, encoding, text)
    }

    init(_ parameters: any Encodable & Sendable, _ text: String) { self.init(parameters, .default, text) }
}

extension EncodedCase {
    /// A value that is affected by every option.
    struct Everything: Encodable {
        struct Inner: Encodable {
            var deepList = [["x y"], ["z"]]
            var isDeep = false
            var pairs = [["aB": 1], ["aB": 2]]
        }

        var userName = "Ann Lee"
        var isActive = true
        var raw = Data([1, 250])
        var bornAt = Date(timeIntervalSinceReferenceDate: 123.456)
        var nickName: String?
        var tagList = ["a b", "c"]
        var innerValue = Inner()
    }

    static let everything = Everything()
    private static let date = ["at": Date(timeIntervalSinceReferenceDate: 123.456)]
    private static let reserved = ":#[]@!$&'()*+,;="
    private static let camel = ["oneTwoThree": "oneTwoThree"]

    /// The texts of Alamofire 5.12.0: commit 7595cbc, from its tests or its encoder.
    static let alamofire = values + options + keys + characters + combinations

    /// The texts that differ from those of Alamofire.
    static let others: [Self] = [
        // Sorting pairs does not sort the elements of an array.
        Self(["a": ["c", "b"], "A": ["d"]], "A%5B%5D=d&a%5B%5D=c&a%5B%5D=b"),
        Self(["a": [10, 9]], .init(arrayEncoding: .indexInBrackets), "a%5B0%5D=10&a%5B1%5D=9"),
        // Omitted elements do not change the indexes of later ones.
        Self(["a": [nil, 1]], .init(arrayEncoding: .indexInBrackets), "a%5B1%5D=1"),
        Self(["a": [[], [1]]], .init(arrayEncoding: .indexInBrackets), "a%5B1%5D%5B0%5D=1"),
        // The words of a key end at brackets and dots.
        Self(["userID": ["Name": 1]], .init(keyEncoding: .convertToSnakeCase), "user_id%5Bname%5D=1"),
        Self(
            ["userID": ["isOn": 1]], .init(keyEncoding: .convertToKebabCase, keyPathEncoding: .dots),
            "user-id.is-on=1"),
        // No choice of allowed characters changes the meaning of the text.
        Self(
            ["a&": "b=c%#+ é\"<"], .init(allowedCharacters: Set("&=%#+ é\"<[]")),
            "a%26=b%3Dc%25%23%2B%20%C3%A9%22%3C"),
        // Alamofire treats numeric keys as indexes of an array.
        Self([5: "a", 10: "b"], "10=b&5=a"),
        Self(["a": [7: ["b": 1]]], "a%5B7%5D%5Bb%5D=1"),
        // `URL` encodes itself as a dictionary. Other encoders replace the dictionary by text; Alamofire's does not.
        Self(["u": URL(string: "b?c=d", relativeTo: URL(string: "http://h/a/"))], "u=http%3A//h/a/b?c%3Dd"),
        Self(Empties(), .init(emptyEncoding: .dropKey), "z=1"),
        Self(Empties(), .init(emptyEncoding: .dropValue), "b%5B%5D=&b%5B%5D=&c%5Bd%5D=&e=&z=1"),
        Self(nil as [String: Int]?, .init(nilEncoding: .dropValue), ""),
        Self(nil as [String: Int]?, .init(nilEncoding: .null), ""),
    ]

    /// Every kind of value with the default options.
    private static let values: [Self] = [
        Self(["a": "a"], "a=a"),
        Self(["a": ""], "a="),
        Self(["a": Decimal(string: "12345678901234567890.125", locale: nil)], "a=12345678901234567890.125"),
        Self(["a": -2.5e-9], "a=-2.5e-09"),
        Self(["a": 1e21], "a=1e%2B21"),
        Self(["a": [[1, 2], [3]]], "a%5B%5D%5B%5D=1&a%5B%5D%5B%5D=2&a%5B%5D%5B%5D=3"),
        Self(
            ["a": [["b": [1, 2]], ["b": [3]]]], "a%5B%5D%5Bb%5D%5B%5D=1&a%5B%5D%5Bb%5D%5B%5D=2&a%5B%5D%5Bb%5D%5B%5D=3"),
        Self(["a": Data([251, 255])], "a=%2B/8%3D"),
        Self(["a": Data()], "a="),
        Self(["a": nil as Int?], ""),
        Self(["a": [] as [Int]], ""),
        Self(["a": Double.infinity], "a=inf"),
        Self(["a": Double.nan], "a=nan"),
        Self([:] as [String: Int], ""),
        Self(["b": "1", "a": "2", "a-b": "3", "a1": "4", "B": "5"], "B=5&a-b=3&a1=4&a=2&b=1"),
        Self(
            everything,
            """
            bornAt=123.456&innerValue%5BdeepList%5D%5B%5D%5B%5D=x%20y&innerValue%5BdeepList%5D%5B%5D%5B%5D=z&\
            innerValue%5BisDeep%5D=0&innerValue%5Bpairs%5D%5B%5D%5BaB%5D=1&\
            innerValue%5Bpairs%5D%5B%5D%5BaB%5D=2&isActive=1&raw=Afo%3D&tagList%5B%5D=a%20b&tagList%5B%5D=c&\
            userName=Ann%20Lee
            """),
        Self(["a": Weekday.monday], "a=monday"),
        Self(["a": Choice.both(1, with: "x")], "a%5Bboth%5D%5B_0%5D=1&a%5Bboth%5D%5Bwith%5D=x"),
    ]

    /// Every value of every option, with the other options at their defaults.
    private static let options: [Self] = [
        Self(["array": [1, 2]], .init(arrayEncoding: .custom { "\($0).\($1 + 1)" }), "array.1=1&array.2=2"),
        Self(
            ["a": [["b": [1, 2]], ["c": [3]]]], .init(arrayEncoding: .indexInBrackets),
            "a%5B0%5D%5Bb%5D%5B0%5D=1&a%5B0%5D%5Bb%5D%5B1%5D=2&a%5B1%5D%5Bc%5D%5B0%5D=3"),
        Self(["a": [[1, 2], [3]]], .init(arrayEncoding: .noBrackets), "a=1&a=2&a=3"),
        Self(["b": [["c": 4]]], .init(arrayEncoding: .noBrackets), "b%5Bc%5D=4"),
        Self(["bool": [true, false]], .init(boolEncoding: .literal), "bool%5B%5D=true&bool%5B%5D=false"),
        Self(["data": Data([251, 255])], .init(dataEncoding: .deferredToData), "data%5B%5D=251&data%5B%5D=255"),
        Self(["data": Data([1, 2])], .init(dataEncoding: .custom { "\($0.count) bytes" }), "data=2%20bytes"),
        Self(date, .init(dateEncoding: .secondsSince1970), "at=978307323.456"),
        Self(date, .init(dateEncoding: .millisecondsSince1970), "at=978307323456.0"),
        Self(date, .init(dateEncoding: .formatted(formatter)), "at=2001-01-01%2000%3A02%3A03.4560"),
        Self(date, .init(dateEncoding: .custom { "\($0.timeIntervalSinceReferenceDate)" }), "at=123.456"),
        Self(
            ["at": Date(timeIntervalSinceReferenceDate: -0.5)], .init(dateEncoding: .iso8601),
            "at=2000-12-31T23%3A59%3A59Z"),
        Self(["a": ["b": "b"]], .init(keyPathEncoding: .custom { "-\($0)" }), "a-b=b"),
        Self(["a": ["b": ["c": [1, 2]]]], .init(keyPathEncoding: .dots), "a.b.c%5B%5D=1&a.b.c%5B%5D=2"),
        Self(["a": nil as String?, "b": "b"], .init(nilEncoding: .custom("none")), "a=none&b=b"),
        Self(Optionals(), .init(nilEncoding: .dropValue), "one=one&two="),
        Self(Optionals(), .init(nilEncoding: .null), "one=one&two=null"),
        Self(Optionals(), .init(nilEncoding: .dropKey), "one=one"),
        Self(["a": [nil, 1] as [Int?]], .init(nilEncoding: .dropValue), "a%5B%5D=&a%5B%5D=1"),
        Self(["a + b": "c + d"], .init(spaceEncoding: .plusReplaced), "a+%2B+b=c+%2B+d"),
        Self(["allowed$": "?/$,"], .init(allowedCharacters: ["$", "/"]), "allowed$=%3F/$%2C"),
    ]

    private static let combinations: [Self] = [
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, dataEncoding: .deferredToData, keyEncoding: .uppercased,
                keyPathEncoding: .dots, nilEncoding: .null, spaceEncoding: .plusReplaced),
            """
            BORNAT=123.456&INNERVALUE.DEEPLIST%5B0%5D%5B0%5D=x+y&INNERVALUE.DEEPLIST%5B1%5D%5B0%5D=z&\
            INNERVALUE.ISDEEP=0&INNERVALUE.PAIRS%5B0%5D.AB=1&INNERVALUE.PAIRS%5B1%5D.AB=2&ISACTIVE=1&\
            NICKNAME=null&RAW%5B0%5D=1&RAW%5B1%5D=250&TAGLIST%5B0%5D=a+b&TAGLIST%5B1%5D=c&USERNAME=Ann+Lee
            """)
    ]

    private static let keys: [Self] = [
        Self(camel, .init(keyEncoding: .convertToSnakeCase), "one_two_three=oneTwoThree"),
        Self(camel, .init(keyEncoding: .convertToKebabCase), "one-two-three=oneTwoThree"),
        Self(camel, .init(keyEncoding: .capitalized), "OneTwoThree=oneTwoThree"),
        Self(camel, .init(keyEncoding: .uppercased), "ONETWOTHREE=oneTwoThree"),
        Self(camel, .init(keyEncoding: .lowercased), "onetwothree=oneTwoThree"),
        Self(camel, .init(keyEncoding: .custom { _ in "A" }), "A=oneTwoThree"),
        Self(["myURLProperty": 1], .init(keyEncoding: .convertToSnakeCase), "my_url_property=1"),
        Self(["_oneTwo_": 1], .init(keyEncoding: .convertToSnakeCase), "_one_two_=1"),
        Self(["oneTwo3Four": 1], .init(keyEncoding: .convertToSnakeCase), "one_two3_four=1"),
        Self(["A": 1], .init(keyEncoding: .convertToSnakeCase), "a=1"),
        Self(["URL": 1], .init(keyEncoding: .convertToSnakeCase), "u_rl=1"),
        Self(["ÄpfelÜber": 1], .init(keyEncoding: .convertToSnakeCase), "%C3%A4pfel_%C3%BCber=1"),
        Self(["": 1], .init(keyEncoding: .convertToSnakeCase), "=1"),
        Self(
            ["outerKey": ["innerKey": ["deepKey": [1, 2]]]], .init(keyEncoding: .convertToSnakeCase),
            "outer_key%5Binner_key%5D%5Bdeep_key%5D%5B%5D=1&outer_key%5Binner_key%5D%5Bdeep_key%5D%5B%5D=2"),
        Self(
            ["outerKey": ["innerKey": ["deepKey": [1, 2]]]], .init(keyEncoding: .capitalized),
            "OuterKey%5BinnerKey%5D%5BdeepKey%5D%5B%5D=1&OuterKey%5BinnerKey%5D%5BdeepKey%5D%5B%5D=2"),
    ]

    private static let characters: [Self] = [
        Self(
            [
                "lowercase": "abcdefghijklmnopqrstuvwxyz", "numbers": "0123456789",
                "uppercase": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            ], "lowercase=abcdefghijklmnopqrstuvwxyz&numbers=0123456789&uppercase=ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        Self(["reserved": reserved], "reserved=%3A%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D"),
        Self([reserved: "key"], "%3A%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D=key"),
        Self(["illegal": " \"#%<>[]\\^`{}|"], "illegal=%20%22%23%25%3C%3E%5B%5D%5C%5E%60%7B%7D%7C"),
        Self(["percent%": "%25"], "percent%25=%2525"),
        Self(
            ["french": "français", "japanese": "日本語", "arabic": "العربية", "emoji": "😃"],
            """
            arabic=%D8%A7%D9%84%D8%B9%D8%B1%D8%A8%D9%8A%D8%A9&emoji=%F0%9F%98%83&french=fran%C3%A7ais&\
            japanese=%E6%97%A5%E6%9C%AC%E8%AA%9E
            """),
        Self(["unreserved -._~": "?/ /?"], "unreserved%20-._~=?/%20/?"),
        Self(["controls": "\0\t\r\n\u{7F}"], "controls=%00%09%0D%0A%7F"),
        Self(["": "", "a[b]": "1"], "=&a%5Bb%5D=1"),
        Self(["e\u{301}": "\u{E9}"], "e%CC%81=%C3%A9"),
        Self(
            ["\u{FEFF}": "\u{202E}\u{10FFFF}👩‍👩‍👧"],
            "%EF%BB%BF=%E2%80%AE%F4%8F%BF%BF%F0%9F%91%A9%E2%80%8D%F0%9F%91%A9%E2%80%8D%F0%9F%91%A7"),
    ]

    private enum Weekday: String, Encodable {
        case monday
    }

    private enum Choice: Encodable {
        case both(Int, with: String)
    }

    private struct Empties: Encodable {
        var b = [[Int](), []]
        var c = ["d": [String: Int]()]
        var e = [Int]()
        var z = 1
    }

    private struct Optionals: Encodable {
        var one = "one"
        var two: String?
    }

    private static let formatter: DateFormatter = {
        let formatter = DateFormatter()
        formatter.dateFormat = "yyyy-MM-dd HH:mm:ss.SSSS"
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.calendar = Calendar(identifier: .gregorian)
        return formatter
    }()
}
