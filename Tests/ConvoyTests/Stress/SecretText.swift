import Convoy
import Foundation
import Testing

/// A secret that contains the number of its request and its place.
struct Secret: CustomStringConvertible {
    enum Place: String {
        case authorization, cookie, key, url, query, body, proxy, location, answer
    }

    let number: Int
    let place: Place

    var description: String { "the secret of request \(number) in \(place)" }

    /// The start of all secrets, and its Base64 after the three bytes of `me:`.
    static let marks = ["hUnT3r", "aFVuVDNy"]

    /// - Parameter filler: the end of the secret.
    static func make(_ number: Int, _ place: Place, filler: String = "") -> String {
        "hUnT3r.\(number).\(place.rawValue).\(filler)"
    }

    /// The secrets in a text, including those in `Basic` credentials.
    static func all(in text: String) -> [Secret] {
        let credentials = text.matches(of: /Basic ([A-Za-z0-9+\/=]+)/).compactMap { match in
            Data(base64Encoded: String(match.1)).map { String(decoding: $0, as: UTF8.self) }
        }
        return ([text] + credentials).flatMap { text in
            text.matches(of: /hUnT3r\.([0-9]+)\.([a-z]+)\./).compactMap { match in
                guard let number = Int(match.1), let place = Place(rawValue: String(match.2)) else { return nil }
                return Secret(number: number, place: place)
            }
        }
    }
}

final class SecretText: Sendable {
    private let log = EventLog<String>()

    /// - Parameter texts: texts that may be shown to people.
    func add(_ texts: String...) { for text in texts { log.record(text) } }

    /// Adds the text that a debugger shows for a value.
    func addDump(of value: Any) {
        var text = ""
        dump(value, to: &text, maxDepth: 8, maxItems: 400)
        add(text)
    }

    func expectNone(sourceLocation: SourceLocation = #_sourceLocation) {
        let texts = log.events
        #expect(texts.count > 20, "nothing was said", sourceLocation: sourceLocation)
        for text in texts {
            for mark in Secret.marks {
                guard let range = text.range(of: mark) else { continue }
                let start = text.index(range.lowerBound, offsetBy: -200, limitedBy: text.startIndex) ?? text.startIndex
                Issue.record("a secret was said: \(text[start...].prefix(300))", sourceLocation: sourceLocation)
            }
        }
    }
}
