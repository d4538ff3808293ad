import Testing

@testable import Convoy

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
        ("bytes=5-9", "bytes 0-4/100", false),
        ("bytes=5-9", "bytes 5-10/100", false), ("bytes=5-9", "bytes */100", false),
        ("bytes=5-", "bytes 5-99/100", true),
        ("bytes=-5", "bytes 95-99/100", true), ("bytes=-5", "bytes 94-99/100", true),
        ("bytes=-5", "bytes 0-2/3", true),
        ("bytes=-5", "bytes 5-9/*", true), ("bytes=-5", "bytes 0-4/100", true),
    ])
    func aPartialResponseBeginsAtTheRange(_ asked: String, _ sent: String, _ isAdmitted: Bool) throws {
        #expect(try #require(ByteRange(asked)).admits(#require(ContentRange(sent))) == isAdmitted)
    }
}
