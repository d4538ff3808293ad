import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FiguresTests {
    @Test(arguments: [
        (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (1_249, "1.2 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"),
        (1_234_567_890, "1.2 GB"), (Int64.max, "9.2 EB"),
    ])
    func bytesHaveOneDecimal(count: Int64, text: String) {
        #expect(Figures.bytes(count) == text)
    }

    @Test(arguments: [
        (Duration.milliseconds(12), "12 ms"), (.milliseconds(340), "0.3 s"), (.milliseconds(59_949), "59.9 s"),
        (.milliseconds(59_960), "1 min 00 s"), (.seconds(65), "1 min 05 s"), (.seconds(7_380), "2 h 03 min"),
        (.seconds(-1), "0 ms"),
    ])
    func timesAreForPeople(time: Duration, text: String) {
        #expect(Figures.time(time) == text)
    }

    @Test(arguments: [
        (6.2, "0:07"), (754.0, "12:34"), (3_723.0, "1h02m"), (99_999, "27h"), (Double.infinity, "> 99h"), (-5, "0:00"),
    ])
    func timeLeftIsAClock(seconds: Double, text: String) {
        #expect(Figures.timeLeft(seconds) == text)
    }

    @Test func ratesAreBytesASecond() {
        #expect(Figures.rate(1_500_000) == "1.5 MB/s")
        #expect(Figures.rate(.infinity).hasSuffix("EB/s"))
    }
}

@Suite struct VisibleTextTests {
    @Test func nothingSteersTheTerminal() {
        #expect("a\u{1B}[2Jb\u{9B}c\u{7}\u{202E}d\u{2028}e".visible() == "a?[2Jb?c??d?e")
        #expect("a\r\nb\tc".visible() == "a  b c")
        #expect("a\nb".visible(keepsNewlines: true) == "a\nb")
        #expect("\u{E9}\u{6F22}\u{1F600}".visible() == "\u{E9}\u{6F22}\u{1F600}")
    }

    @Test(arguments: [
        ("abc", 3), ("\u{6F22}\u{5B57}", 4), ("e\u{301}", 1), ("\u{1F600}", 2), ("\u{FF21}", 2), ("\u{200D}", 0),
        ("\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}", 2), ("\u{1F44D}\u{1F3FD}", 2), ("\u{1F1EB}\u{1F1F7}", 2),
        ("\u{2764}\u{FE0F}", 2), ("1\u{FE0F}\u{20E3}", 2),
    ])
    func columnsAreCounted(text: String, count: Int) {
        #expect(text.columnCount == count)
    }

    @Test func clippingNeverExceedsTheLimit() {
        for limit in 0...12 {
            #expect("\u{6F22}a\u{5B57}b\u{1F600}cdefgh".clipped(toColumns: limit).columnCount <= limit)
            #expect("\u{6F22}a\u{5B57}".fitted(toColumns: limit).columnCount == limit)
        }
        let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}"
        #expect("a\(family)bcdefghi".clipped(toColumns: 7) == "a\(family)b...")
        #expect("a\(family)\(family)cdefg".clipped(toColumns: 7) == "a\(family)...")
        #expect("abcdefghij".clipped(toColumns: 8) == "abcde...")
    }
}

@Suite struct WrappingTests {
    @Test func textIsBrokenAtBlanks() {
        #expect("one two three".wrapped(toColumns: 13) == "one two three")
        #expect("one two three".wrapped(toColumns: 12) == "one two\n  three")
        #expect("one http://a/rather-long two".wrapped(toColumns: 9) == "one\n  http://a/rather-long\n  two")
    }

    /// In help, the author sets the line breaks.
    @Test func eachLineIsBrokenForItself() {
        #expect("Examples:\n  a  b\n\n  cc dd".wrapped(toColumns: 10) == "Examples:\n  a  b\n\n  cc dd")
        #expect("x\nsaved a  b  c d".wrapped(toColumns: 12) == "x\nsaved a  b \n  c d")
    }
}

@Suite struct StreamedTextTests {
    @Test func nothingSteersTheTerminalWhereverThePiecesEnd() {
        let body = Data("a\u{1B}[2J\tü\u{9B}1m\r\n\u{1F600}\u{7}é".utf8)
        for size in 1...body.count {
            var (text, shown) = (TerminalText(), "")
            for start in stride(from: 0, to: body.count, by: size) {
                shown += text.take(body[start..<min(start + size, body.count)])
            }
            #expect(shown + text.rest == "a?[2J\tü?1m\n\u{1F600}?é")
        }
    }

    @Test func aCharacterThatIsCutAtTheEndIsShownAsOne() {
        var text = TerminalText()
        #expect(text.take(Data([0x61, 0xF0, 0x9F])) == "a")
        #expect(text.rest == "\u{FFFD}")
        #expect(text.take(Data([0xFF, 0x62])).hasSuffix("b"))
    }
}
