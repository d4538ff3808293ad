// Random event streams for property tests, and their expected events.
import Foundation

@testable import Convoy

/// Generates random streams, most of them almost valid.
enum EventText {
    private static let tokens: [[UInt8]] =
        [
            "data", "data:", "data: ", "data:x", "data:  y\n", "event:", "event: e", "id", "id:", "id: 7",
            "id: a\u{0}b",
            "retry:", "retry: 10", "retry: 1x", "retry: -1", ":", ": comment", "Data: z", "dat", " ", "é", "\u{FEFF}",
            "\u{0}", "a", "\u{301}", "\n", "\n", "\n\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", "\n\r",
        ].map { Array($0.utf8) } + [[0xFF], [0xE2, 0x82]]

    static func random(using generator: inout SeededGenerator) -> [UInt8] {
        let mark: [UInt8] = Int.random(in: 0..<8, using: &generator) == 0 ? [0xEF, 0xBB, 0xBF] : []
        return (0..<Int.random(in: 0...24, using: &generator)).reduce(into: mark) { text, _ in
            text += tokens.randomElement(using: &generator) ?? []
        }
    }

    /// Cuts the bytes into pieces, some of them empty.
    static func cut(_ bytes: [UInt8], using generator: inout SeededGenerator) -> [Data] {
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

    /// The lines of a complete text, computed by other code than the parser.
    private static func lines(_ bytes: [UInt8]) -> [String] {
        var text = String(decoding: bytes, as: UTF8.self).unicodeScalars
        if text.first == "\u{FEFF}" { text.removeFirst() }
        var lines: [String] = []
        var line = String.UnicodeScalarView()
        var last: Unicode.Scalar?
        for scalar in text {
            if scalar == "\n" && last == "\r" {
            } else if scalar == "\n" || scalar == "\r" {
                lines.append(String(line))
                line = String.UnicodeScalarView()
            } else {
                line.append(scalar)
            }
            last = scalar
        }
        return line.isEmpty ? lines : lines + [String(line)]
    }

    /// The events of a complete stream, by the steps of the standard.
    static func reference(_ bytes: [UInt8]) -> [ServerSentEvent] {
        var (type, data, nextID, time) = ("", [String](), "", Duration?.none)
        var events: [ServerSentEvent] = []
        for line in lines(bytes) {
            let scalars = Array(line.unicodeScalars)
            func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
                var view = String.UnicodeScalarView()
                view.append(contentsOf: scalars)
                return String(view)
            }
            if scalars.isEmpty {
                // One empty line of data is also an event.
                if !data.isEmpty {
                    events.append(
                        ServerSentEvent(
                            type: type == "" ? "message" : type, data: data.joined(separator: "\n"),
                            lastEventID: nextID,
                            reconnectionTime: time))
                }
                (type, data) = ("", [])
                continue
            }
            let colon = scalars.firstIndex(of: ":") ?? scalars.count
            var value = scalars.dropFirst(colon + 1)
            if value.first == " " { value = value.dropFirst() }
            switch string(scalars[..<colon]) {
            case "data": data.append(string(value))
            case "event": type = string(value)
            case "id": if !value.contains("\u{0}") { nextID = string(value) }
            case "retry":
                if !value.isEmpty, value.allSatisfy({ ("0"..."9").contains($0) }), let number = Int64(string(value)) {
                    time = .milliseconds(number)
                }
            default: break
            }
        }
        return events
    }
}
