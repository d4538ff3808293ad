import Foundation
import Testing

@testable import Convoy

@Suite struct PropertyListDepthTests {
    private static func xml(_ depth: Int, _ open: String = "<array>", _ close: String = "</array>") -> String {
        "<plist>" + String(repeating: open, count: depth) + String(repeating: close, count: depth) + "</plist>"
    }

    /// A binary property list of arrays, each with references to others.
    ///
    /// - Parameters:
    ///   - sizes: the number of bytes of an offset and of a reference.
    ///   - lengthSize: the exponent of the number of bytes of an array's length; nil for a length in the first byte.
    private static func binary(
        _ objects: [[Int]], sizes: (offset: Int, reference: Int) = (4, 4), lengthSize: Int? = nil
    ) -> Data {
        func bytes(_ number: Int, _ count: Int) -> [UInt8] {
            (0..<count).reversed().map { $0 > 7 ? 0 : UInt8(truncatingIfNeeded: number >> (8 * $0)) }
        }
        var list = Data("bplist00".utf8)
        var offsets: [Int] = []
        for object in objects {
            offsets.append(list.count)
            if let lengthSize {
                list.append(contentsOf: [0xAF, 0x10 | UInt8(lengthSize)] + bytes(object.count, 1 << lengthSize))
            } else {
                list.append(0xA0 | UInt8(object.count))
            }
            for reference in object { list.append(contentsOf: bytes(reference, sizes.reference)) }
        }
        let table = list.count
        for offset in offsets { list.append(contentsOf: bytes(offset, sizes.offset)) }
        list.append(contentsOf: [0, 0, 0, 0, 0, 0, UInt8(sizes.offset), UInt8(sizes.reference)])
        for number in [objects.count, 0, table] { list.append(contentsOf: bytes(number, 8)) }
        return list
    }

    /// A type that is as deep as the list.
    private struct Tree: Decodable, Sendable {
        var count = 1

        init(from decoder: any Decoder) throws {
            var list = try decoder.unkeyedContainer()
            while !list.isAtEnd { count += try list.decode(Tree.self).count }
        }
    }

    private func decode(_ body: Data) throws -> Int {
        try ResponseDecoding.propertyList(Tree.self, body, PropertyListDecoder()).count
    }

    @Test func listsAsDeepAsAllowedAreDecoded() throws {
        #expect(try decode(Data(Self.xml(200).utf8)) == 200)
        let chain = (0..<200).map { $0 == 199 ? [] : [$0 + 1] }
        #expect(try decode(Self.binary(chain)) == 200)
    }

    @Test(arguments: [
        Data(xml(201).utf8), Data(xml(100_000).utf8), Data(xml(1_000, "<dict><key>a</key>", "</dict>").utf8),
        Data("<plist>\(String(repeating: "<array >", count: 100_000))".utf8),
        Data("<plist>\(String(repeating: "<array><!--</array>-->", count: 100_000))".utf8),
        Data("<!--\(String(repeating: "</array>", count: 1_000))--><plist>\(xml(1_000))".utf8),
        Data("<plist>\(String(repeating: "<array><![CDATA[</array>]]>", count: 1_000))".utf8),
        Data("<!DOCTYPE plist [<!ENTITY a \"</array>\">]><plist><array/></plist>".utf8),
        Data(xml(100_000).utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }),
        binary((0..<202).map { $0 == 201 ? [] : [$0 + 1] }), binary((0..<100_000).map { $0 == 99_999 ? [] : [$0 + 1] }),
        // For these texts, Foundation's parser deviates from XML.
        Data(String(repeating: "<plist>", count: 100_000).utf8),
        Data("<plist>\(String(repeating: "<array </array >", count: 100_000))".utf8),
        Data("<plist><array><true a=\"<!--\"/>\(String(repeating: "<array>", count: 100_000))".utf8),
        Data("<plist><array><?>\(String(repeating: "<array>", count: 100_000))<?>".utf8),
        Data("<?x ?\0> <!-- ?><plist>\(String(repeating: "<array>", count: 100_000))".utf8),
        Data([0xFF, 0xFE]) + Data(xml(100_000).utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }),
        // Foundation reads only the last eight bytes of these numbers.
        binary([[0]], sizes: (4, 16)), binary([[0]], sizes: (9, 4)), binary([[0]], lengthSize: 4),
        binary([[0]]), binary([[1], [2], [0]]), binary((0..<60).map { $0 == 59 ? [] : [$0 + 1, $0 + 1] }),
    ])
    func listsThatWouldOverflowAreRefused(body: Data) throws {
        #expect(throws: DecodingError.self) { try decode(body) }
        #expect(!PropertyListDepth.isBearable(body))
    }

    @Test func emptyOnesDoNotCount() throws {
        let list = "<plist version=\"1.0\"><array>\(String(repeating: "<array/><dict />", count: 300))</array></plist>"
        #expect(PropertyListDepth.isBearable(Data(list.utf8)))
        let typed =
            "<?xml version=\"1.0\"?><!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://a/b.dtd\">" + list
        #expect(PropertyListDepth.isBearable(Data(typed.utf8)))
    }

    /// The value of key `a` is a missing object, and the value of `b` is a cycle.
    ///
    /// A decoder that reads only `b` would not notice the missing object.
    @Test func referenceThatLeadsNowhereHidesNoCycle() throws {
        var list = Data("bplist00".utf8)
        list.append(contentsOf: [0xD2, 1, 2, 99, 0, 0x51, UInt8(ascii: "a"), 0x51, UInt8(ascii: "b")])
        list.append(contentsOf: [8, 13, 15] + [0, 0, 0, 0, 0, 0, 1, 1])
        for number in [3, 0, 17] as [UInt8] { list.append(contentsOf: [0, 0, 0, 0, 0, 0, 0, number]) }
        #expect(!PropertyListDepth.isBearable(list))
    }

    /// The depth check needs less memory than the list.
    @Test func wideListsAreDecoded() throws {
        #expect(try decode(Self.binary([Array(repeating: 1, count: 50_000), []], lengthSize: 2)) == 50_001)
        let list = "<plist><array>\(String(repeating: "<array></array>", count: 20_000))</array></plist>"
        #expect(try decode(Data(list.utf8)) == 20_001)
    }

    @Test func listsInUTF16AreDecoded() throws {
        let units = Self.xml(3).utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        #expect(PropertyListDepth.isBearable(Data([0xFF, 0xFE] + units)))
    }

    @Test func sharedObjectsAreNotACycle() throws {
        #expect(try decode(Self.binary([[1, 2, 1], [2, 2], []])) == 8)
    }

    /// The depth check accepts bytes that are not a list; the decoder rejects them.
    @Test func brokenListsAreRefusedWithoutACrash() async {
        let whole = [UInt8](Self.binary([[1, 2], [2], []]))
        await offPool {
            var generator = SeededGenerator(seed: 34)
            for _ in 0..<LongRuns.count(1_000, long: 5_000) {
                var bytes = whole
                for _ in 0..<Int.random(in: 1...4, using: &generator) {
                    bytes[Int.random(in: 7..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
                }
                _ = try? decode(Data(bytes))
                _ = try? decode(Data(bytes.prefix(Int.random(in: 0...bytes.count, using: &generator))))
            }
        }
    }
}
