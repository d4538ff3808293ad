import Foundation
import Testing

@testable import Convoy

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

    // MARK: Types

    private class Animal: Encodable {
        var name = "Rex"
        var legs = 4
    }

    private final class Dog: Animal {
        var isGood = true

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: DogKey.self)
            try container.encode(isGood, forKey: .isGood)
            try super.encode(to: container.superEncoder())
        }

        enum DogKey: String, CodingKey {
            case isGood
            case parent
        }
    }

    private final class NestedDog: Animal {
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Dog.DogKey.self)
            try super.encode(to: container.superEncoder(forKey: .parent))
        }
    }

    private final class SharingDog: Animal {
        override func encode(to encoder: any Encoder) throws {
            try super.encode(to: encoder)
            var container = encoder.container(keyedBy: Dog.DogKey.self)
            try container.encode("yes", forKey: .isGood)
        }
    }

    /// The properties of a superclass are beside those of the subclass, as in Alamofire.
    @Test func superclassGoesBesideItsSubclass() throws {
        #expect(try text(Dog()) == "isGood=1&name=Rex&legs=4")
        #expect(try text(Dog(), .default) == "isGood=1&legs=4&name=Rex")
        #expect(try text(["dogs": [Dog()]]) == "dogs[][isGood]=1&dogs[][name]=Rex&dogs[][legs]=4")
        #expect(try text(SharingDog()) == "name=Rex&legs=4&isGood=yes")
    }

    @Test func superclassUnderAKeyIsNested() throws {
        #expect(try text(NestedDog()) == "parent[name]=Rex&parent[legs]=4")
    }

    @Test func superclassInAnArrayIsAnElement() throws {
        let value = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
            var list = container.nestedUnkeyedContainer(forKey: .a)
            try list.encode(1)
            try Animal().encode(to: list.superEncoder())
            #expect(list.count == 2)
        }
        #expect(try text(value) == "a[]=1&a[][name]=Rex&a[][legs]=4")
    }

    @Test func superclassWithoutKeysIsNamedAfterSwiftsKey() throws {
        let value = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(1, forKey: .a)
            var single = container.superEncoder().singleValueContainer()
            try single.encode(2)
        }
        #expect(try text(value) == "a=1&super=2")
    }

    @Test func superclassWithoutValuesIsNotSeen() throws {
        for inherit in [{ _ in }, { _ = $0.container(keyedBy: Key.self) }] as [(any Encoder) -> Void] {
            let value = ByHand { encoder in
                var container = encoder.container(keyedBy: Key.self)
                inherit(container.superEncoder())
                try container.encode(1, forKey: .a)
            }
            #expect(try text(value, .init(emptyEncoding: .dropValue)) == "a=1")
        }
    }

    @Test func superclassMayNotHideAKeyOfItsSubclass() throws {
        let value = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(1, forKey: .a)
            var inherited = container.superEncoder().container(keyedBy: Key.self)
            try inherited.encode(2, forKey: .a)
        }
        #expect(try reason(["x": [value]]) == "x[0].a: a class and its superclass both encode this key")
    }

    private enum Move: Encodable {
        case stay
        case go(to: String, Int?)
    }

    @Test func enumWithAssociatedValuesIsADictionary() throws {
        #expect(try text(["m": Move.go(to: "x", 1)]) == "m[go][to]=x&m[go][_1]=1")
        #expect(try text(["m": Move.stay], .init(emptyEncoding: .dropValue)) == "m[stay]=")
    }

    @Test func everyIntegerHasAllItsDigits() throws {
        #expect(try text(["a": Int128.min]) == "a=-170141183460469231731687303715884105728")
        #expect(try text(["a": [UInt128.max]]) == "a[]=340282366920938463463374607431768211455")
        #expect(try text(["a": Optional(UInt64.max)]) == "a=18446744073709551615")
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

    @Test func everyOptionalCanBeSeenMissing() throws {
        let names = Mirror(reflecting: Optionals()).children.compactMap(\.label)
        let encoding = ParameterEncoding(alphabetizeKeyValuePairs: false, nilEncoding: .null)
        #expect(try text(Optionals(), encoding) == names.map { "\($0)=null" }.joined(separator: "&"))
        #expect(try text(Optionals()) == "")
        let some = Optionals(bool: true, int8: 1, uint128: 2, date: Date(timeIntervalSinceReferenceDate: 3), list: [4])
        #expect(try text(some) == "bool=1&int8=1&uint128=2&date=3.0&list[]=4")
    }

    // MARK: Containers

    @Test func containersMayBeFilledInTurn() throws {
        let value = ByHand { encoder in
            var outer = encoder.container(keyedBy: Key.self)
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
        let value = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try container.encode([1, 2], forKey: .a)
            try container.encode(3, forKey: .b)
            try container.encode([4], forKey: .a)
        }
        #expect(try text(value) == "a[]=4&b=3")
    }

    @Test func placeWithTwoMeaningsIsAnError() throws {
        let objectAndArray = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
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

    // MARK: Errors

    struct Refusal: Error {}

    @Test func aValueWithoutAKeyIsAnError() throws {
        for reason in try [
            reason([1]), reason("a"), reason(1.5), reason([] as [Int]), reason(ParameterValue.bool(true)),
        ] {
            #expect(reason == #"it has no key: put it into a dictionary, ["name": value]"#)
        }
    }

    @Test func errorOfATypeNamesItsKeyPath() throws {
        let failing = ByHand { _ in throw Refusal() }
        let error = #expect(throws: EncodingError.self) {
            try ParameterEncoding.default.encode(["user": ["first name": [1: [failing]]]])
        }
        #expect(error?.reason == #"user["first name"][1][0]: Refusal()"#)
        guard case .invalidValue(_, let context)? = error else { return }
        #expect(context.underlyingError is Refusal)
    }

    @Test func errorOfAnOptionNamesItsKeyPath() throws {
        let dates = ParameterEncoding(dateEncoding: .custom { _ in throw Refusal() })
        #expect(try reason(["a": ["b": Date()]], dates) == "a.b: Refusal()")
        let data = ParameterEncoding(dataEncoding: .custom { _ in throw Refusal() })
        #expect(try reason(["a": [Data()]], data) == "a[0]: Refusal()")
    }

    // MARK: Depth

    private func nested(_ levels: Int, _ leaf: ParameterValue = 1) -> ParameterValue {
        (0..<levels).reduce(leaf) { inner, level in level.isMultiple(of: 2) ? ["k": inner] : [inner] }
    }

    @Test func depthIsBounded() async throws {
        // The numbers are odd, so that the outermost value is a dictionary.
        let encoding = ParameterEncoding(arrayEncoding: .noBrackets, keyPathEncoding: .custom { _ in "" })
        let deepest = nested(127)
        let tooDeep = nested(129)
        let text = await onSmallStack { try? encoding.encode(deepest) }
        #expect(text == "k=1")
        let failure = await onSmallStack { Result { try encoding.encode(tooDeep) }.failure }
        let error = try #require(failure as? EncodingError)
        #expect(error.reason.hasPrefix("k[0].k[0]"))
        #expect(error.reason.hasSuffix(": it is nested too deeply, or contains itself"))
        #expect(error.reason.count < 200)
    }

    @Test func jsonOfALiteralIsBoundedToo() throws {
        let encoder = JSONEncoder()
        #expect(throws: Never.self) { try encoder.encode(nested(127)) }
        #expect(throws: EncodingError.self) { try encoder.encode(nested(129)) }
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
        let value = ByHand { encoder in
            var container = encoder.container(keyedBy: Key.self)
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
