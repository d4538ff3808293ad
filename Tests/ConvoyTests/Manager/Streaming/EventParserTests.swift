import Foundation
import Testing

@testable import Convoy

@Suite struct EventParserTests {
    private static func events(_ pieces: [Data], maxBytes: Int = 1 << 20) throws -> [ServerSentEvent] {
        var parser = EventParser(maxBytes: maxBytes)
        var events: [ServerSentEvent] = []
        for piece in pieces {
            parser.append(piece)
            while let event = try parser.next() { events.append(event) }
        }
        return events
    }

    /// The examples of the HTML standard for event streams, and further cases of the same rules.
    @Test(
        arguments: [
            ("data: YHOO\ndata: +2\ndata: 10\n\n", [.init(data: "YHOO\n+2\n10")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
                [.init(data: "first event", lastEventID: "1"), .init(data: "second event")]
            ),
            ("data\n\ndata\ndata\n\ndata:", [.init(data: ""), .init(data: "\n")]),
            ("data:test\n\ndata: test\n\n", [.init(data: "test"), .init(data: "test")]),
            ("event: add\ndata: 1\n\ndata: 2\n\n", [.init(type: "add", data: "1"), .init(data: "2")]),
            ("event: a\nevent: b\ndata\n\n", [.init(type: "b", data: "")]),
            ("event: lost\n\ndata: 1\n\n", [.init(data: "1")]),
            ("id: 1\n\ndata: a\n\n", [.init(data: "a", lastEventID: "1")]),
            (
                "id: 1\ndata: a\n\nid: b\u{0}\ndata: b\n\n",
                [
                    .init(data: "a", lastEventID: "1"), .init(data: "b", lastEventID: "1"),
                ]
            ),
            (
                "retry: 10\ndata\n\nretry: 1s\nretry: -1\nretry: 99999999999999999999\nretry:\ndata\n\n",
                [
                    .init(data: "", reconnectionTime: .milliseconds(10)),
                    .init(data: "", reconnectionTime: .milliseconds(10)),
                ]
            ),
            ("data: a\r\ndata: b\rdata: c\n\r\n", [.init(data: "a\nb\nc")]),
            ("data: a\r\rdata: b\r\n\r\n", [.init(data: "a"), .init(data: "b")]),
            ("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n", [.init(data: "a")]),
            ("Data: a\n data: b\ndata : c\ndatax: d\n\n", []),
            (":\n\n: keep alive\n\n", []), ("data: a\n", []), ("data: a", []),
            ("data: \u{301}a:b\n\n", [.init(data: "\u{301}a:b")]), ("data: a\u{0}b\n\n", [.init(data: "a\u{0}b")]),
        ] as [(String, [ServerSentEvent])])
    func streamMeansTheseEvents(text: String, events: [ServerSentEvent]) throws {
        #expect(try Self.events([Data(text.utf8)]) == events)
        #expect(try Self.events(text.utf8.map { Data([$0]) }) == events)
    }

    // MARK: Random streams, most of them almost valid

    private static let tokens: [[UInt8]] =
        [
            "data", "data:", "data: ", "data:x", "data:  y\n", "event:", "event: e", "id", "id:", "id: 7",
            "id: a\u{0}b",
            "retry:", "retry: 10", "retry: 1x", "retry: -1", ":", ": comment", "Data: z", "dat", " ", "é", "\u{FEFF}",
            "\u{0}", "a", "\u{301}", "\n", "\n", "\n\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", "\n\r",
        ].map { Array($0.utf8) } + [[0xFF], [0xE2, 0x82]]

    private static func random(using generator: inout SeededGenerator) -> [UInt8] {
        let mark: [UInt8] = Int.random(in: 0..<8, using: &generator) == 0 ? [0xEF, 0xBB, 0xBF] : []
        return (0..<Int.random(in: 0...24, using: &generator)).reduce(into: mark) { text, _ in
            text += tokens.randomElement(using: &generator) ?? []
        }
    }

    /// Cuts the bytes into pieces, some of them empty.
    private static func cut(_ bytes: [UInt8], using generator: inout SeededGenerator) -> [Data] {
        var rest = bytes[...]
        var pieces: [Data] = []
        let longest = Int.random(in: 1...12, using: &generator)
        while !rest.isEmpty {
            let count = Int.random(in: 0...longest, using: &generator)
            // The pieces are slices whose first index is not 0.
            pieces.append(Data([0] + rest.prefix(count)).dropFirst())
            rest = rest.dropFirst(count)
        }
        return pieces
    }

    @Test func eventsAreTheSameHoweverTheStreamIsCut() async {
        let (wrong, count) = await offPool {
            var generator = SeededGenerator(seed: 1)
            var count = 0
            let wrong = (0..<10_000).compactMap { _ -> [UInt8]? in
                let bytes = Self.random(using: &generator)
                let events = try? Self.events(Self.cut(bytes, using: &generator))
                count += events?.count ?? 0
                return events == (try? Self.events([Data(bytes)])) ? nil : bytes
            }
            return (wrong, count)
        }
        #expect(wrong == [])
        #expect(count > 1_000)
    }

    // MARK: Limits and connections

    @Test func eventOverTheLimitIsAnError() throws {
        let exact = "data: 1234\ndata: 12345\n\n"
        #expect(try Self.events([Data(exact.utf8)], maxBytes: 11) == [.init(data: "1234\n12345")])
        for text in [
            "data: 123456\n", "data: 1\ndata: 12345\ndata: 12345\n", "data: 1234567", ": 12345678901", "id:1234567890",
        ] {
            #expect(throws: RequestError.self) { try Self.events([Data(text.utf8)], maxBytes: 11) }
        }
        // Empty lines of data count towards the limit; comments and other events do not.
        #expect(throws: RequestError.self) {
            try Self.events([Data(String(repeating: "data\n", count: 13).utf8)], maxBytes: 11)
        }
        let many = String(repeating: ": 1234\ndata: 12345\n\n", count: 100)
        #expect(try Self.events([Data(many.utf8)], maxBytes: 11).count == 100)
    }
}
