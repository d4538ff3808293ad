import Foundation
import Testing

@testable import ConvoyCommand

/// Tests the text that a terminal shows of a body.
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
