// The parts of a response that are stored for references.
import Convoy
import ConvoyHTTPFile
import Foundation

/// The sent request, and the location of the response body.
struct RunAnswer: Sendable {
    enum Body: Sendable {
        case memory(Data)
        case file(URL)
        /// Dropped, because no reference, check, handler or option needs the body.
        case dropped
    }

    var request: BuiltRequest
    var body: Body
    /// The variables that response handlers have set with `client.global.set`.
    var globals: [String: JSONValue] = [:]
    /// The texts that response handlers have logged.
    var logs: [String] = []

    /// The request and the response, for references in later requests.
    func exchange(_ head: ResponseHead) -> Exchange {
        var exchange = Exchange(request: request, responseFields: head.headerFields.map { ($0.name, $0.value) }) {
            () throws(Unreadable) in
            switch body {
            case .memory(let data): return Array(data)
            case .dropped: return []
            case .file(let url):
                let name = url.lastPathComponent
                return try RunInput.bytes(
                    of: url, unreadable: "\(name) can no longer be read", tooLarge: "\(name) is larger than 64 MiB")
            }
        }
        exchange.globals = globals
        return exchange
    }
}

extension CheckedAnswer {
    init(_ head: ResponseHead, _ body: Data, milliseconds: Double? = nil) {
        self.init(
            statusCode: head.statusCode, fields: head.headerFields.map { ($0.name, $0.value) }, body: [UInt8](body),
            milliseconds: milliseconds)
    }
}

/// A response that failed a check of its request.
struct CheckFailure: Error, CustomStringConvertible {
    let description: String
    /// The texts that response handlers logged before the failure.
    var logs: [String] = []
}

extension [Check] {
    /// The defects of a response, joined; nil if it passes all checks.
    func defect(_ head: ResponseHead, _ body: Data, milliseconds: Double? = nil) -> String? {
        guard !isEmpty else { return nil }
        let answer = CheckedAnswer(head, body, milliseconds: milliseconds)
        let defects = compactMap { $0.defect(in: answer) }
        return defects.isEmpty ? nil : defects.joined(separator: "; ")
    }
}
