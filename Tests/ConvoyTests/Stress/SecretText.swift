// Secrets that can be found again, and texts in which they are searched for.
import Foundation
import Testing

@testable import Convoy

/// A secret that says whose it is and where it was put.
struct Secret: CustomStringConvertible {
    enum Place: String {
        case authorization, cookie, key, url, query, body, proxy, location, answer
    }

    let number: Int
    let place: Place

    var description: String { "the secret of request \(number) in \(place)" }

    /// What all secrets begin with, and what that is in Base64 where it stands behind the three bytes of `me:`.
    static let marks = ["hUnT3r", "aFVuVDNy"]

    /// - Parameter filler: what it ends with.
    static func make(_ number: Int, _ place: Place, filler: String = "") -> String {
        "hUnT3r.\(number).\(place.rawValue).\(filler)"
    }

    /// The secrets in a text, those of `Basic` too.
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

/// Says every event of a manager.
struct EventWords: EventMonitor {
    let said: SecretText

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        said.add("\(event)", String(reflecting: event))
    }
}

/// Everything that was said.
final class SecretText: Sendable {
    private let log = EventLog<String>()

    /// - Parameter texts: what somebody may read.
    func add(_ texts: String...) { for text in texts { log.record(text) } }

    /// Adds what a debugger shows of a value.
    func addDump(of value: Any) {
        var text = ""
        dump(value, to: &text, maxDepth: 8, maxItems: 400)
        add(text)
    }

    /// No secret is in it.
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
