import Foundation
import Testing

@testable import Convoy

@Suite struct ContentRangeTests {
    /// Values that RFC 9110, section 14.4, allows.
    @Test(
        arguments: [
            ("bytes 5-9/100", 5..<10, 100), ("bytes 5-9/*", 5..<10, nil), ("bytes */100", nil, 100),
            ("bytes 42-1233/1234", 42..<1_234, 1_234), ("bytes 0-0/1", 0..<1, 1), ("bytes */0", nil, 0),
            ("Bytes 5-9/100", 5..<10, 100), ("BYTES */47022", nil, 47_022), ("bytes 005-09/0100", 5..<10, 100),
            (" bytes 5-9/100\t", 5..<10, 100),
            (
                "bytes 9223372036854775805-9223372036854775806/9223372036854775807",
                (.max - 2)..<Int64.max, .max
            ),
            ("bytes 0-9223372036854775806/*", 0..<Int64.max, nil),
            ("bytes */9223372036854775807", nil, .max),
        ] as [(String, Range<Int64>?, Int64?)])
    func rangesAndTotalsAreRead(text: String, range: Range<Int64>?, totalBytes: Int64?) throws {
        let read = try #require(ContentRange(text))
        #expect(read.range == range)
        #expect(read.totalBytes == totalBytes)
    }

    @Test(arguments: [
        "", " ", "bytes", "bytes ", "bytes 5-9", "bytes */*", "bytes *", "bytes /", "bytes -/", "bytes */",
        "bytes /100", "bytes 5-/100", "bytes -9/100", "bytes 5/100", "bytes 5-9/", "bytes 5-9/100/100",
        "bytes 5-9-10/100", "5-9/100", "bytes=5-9/100", "bytes:5-9/100", "bytes5-9/100", "bytes 5-9/100;a=b",
        "bytes 5 - 9/100", "bytes 5-9 / 100", "bytes  5-9/100", "bytes\t5-9/100", "bytes **/100", "bytes *-9/100",
        "bytes 5-*/100", "lines 5-9/100", "byte 5-9/100", "bytesx 5-9/100", "none */100", "b\u{FF59}tes 5-9/100",
        "bytes 9-5/100", "bytes 5-4/*", "bytes 5-100/100", "bytes 0-0/0", "bytes 100-100/100", "bytes 5-9/5",
        "bytes -5-9/100", "bytes 5--9/100", "bytes +5-9/100", "bytes 5-9/-100", "bytes 5-9/+100", "bytes */-1",
        "bytes 5-9/100, bytes 20-29/100", "bytes 5-9,20-29/100", "bytes 5-9/100, bytes 5-9/100", "bytes 5-9/100,",
        // The total, or the end of the range plus one, exceeds the largest `Int64`.
        "bytes 0-9223372036854775807/*", "bytes 9223372036854775807-9223372036854775807/*",
        "bytes 0-9223372036854775807/9223372036854775807", "bytes 0-9223372036854775808/*",
        "bytes 5-9/9223372036854775808", "bytes */9223372036854775808",
        "bytes 18446744073709551616-18446744073709551620/*", "bytes 5-99999999999999999999999999999999999999/*",
    ])
    func anInvalidContentRangeIsNil(text: String) {
        #expect(ContentRange(text) == nil)
    }

    @Test(arguments: ["٥", "\u{FF15}", "0x5", "5.0", "5e0", "5\u{0}", "\u{0}5", "5\u{301}", "1_0", "５"])
    func onlyASCIIDigitsCount(number: String) {
        #expect(ContentRange("bytes \(number)-99/100") == nil)
        #expect(ContentRange("bytes 0-\(number)/100") == nil)
        #expect(ContentRange("bytes 0-4/\(number)") == nil)
        #expect(ContentRange("bytes */\(number)") == nil)
    }

    @Test func zerosInFrontDoNotCount() throws {
        let zeros = String(repeating: "0", count: 100_000)
        #expect(try #require(ContentRange("bytes \(zeros)5-\(zeros)9/\(zeros)100")).range == 5..<10)
    }
}

@Suite struct ByteRangeTests {
    @Test(arguments: [
        ("bytes=0-4", 0..<5), ("bytes=5-", 5..<10), ("bytes=-3", 7..<10), ("bytes=-30", 0..<10), ("bytes=8-30", 8..<10),
        ("Bytes=9-9", 9..<10), ("bytes=0-9223372036854775807", 0..<10),
    ])
    func rangeIsOfTheWhole(_ text: String, _ positions: Range<Int64>) {
        #expect(ByteRange(text)?.positions(in: 10) == positions)
    }

    @Test(arguments: ["bytes=0-4, 6-7", "items=0-4", "bytes=", "bytes=-", "bytes=4-3", "bytes=a-b", "bytes 0-4"])
    func otherTextIsNotARange(_ text: String) { #expect(ByteRange(text) == nil) }

    @Test(arguments: ["bytes=10-", "bytes=-0", "bytes=10-20"])
    func rangeAfterTheEndIsNotSatisfied(_ text: String) throws {
        #expect(try #require(ByteRange(text)).positions(in: 10) == nil)
    }

    @Test(arguments: [
        ("bytes=5-9", "bytes 5-9/100", true), ("bytes=5-9", "bytes 5-7/100", true),
        ("bytes=5-9", "bytes 0-4/100", false), ("bytes=5-9", "bytes 5-10/100", false),
        ("bytes=5-9", "bytes */100", false), ("bytes=5-", "bytes 5-99/100", true),
        ("bytes=-5", "bytes 95-99/100", true), ("bytes=-5", "bytes 94-99/100", true), ("bytes=-5", "bytes 0-2/3", true),
        ("bytes=-5", "bytes 5-9/*", true), ("bytes=-5", "bytes 0-4/100", true),
    ])
    func aPartialResponseBeginsAtTheRange(_ asked: String, _ sent: String, _ isAdmitted: Bool) throws {
        #expect(try #require(ByteRange(asked)).admits(#require(ContentRange(sent))) == isAdmitted)
    }
}
