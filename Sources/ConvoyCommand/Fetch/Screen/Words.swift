import Convoy
import Foundation

enum Words {
    static func cause(_ record: AttemptRecord) -> String {
        if let message = record.message {
            return message.range(of: " (").map { String(message[..<$0.lowerBound]) } ?? message
        }
        return record.statusCode.map(status) ?? "no response"
    }

    static func cause(_ error: RequestError) -> String {
        guard error.code == .unacceptableStatus, let head = error.response else { return error.message }
        return error.message.replacing("the server answered \(head.statusCode)", with: status(head.statusCode))
    }

    // A download that makes progress may have more attempts than the limit, which is then omitted.
    static func retry(after cause: String, attempt: Int, of maxAttempts: Int, in delay: Duration) -> String {
        let limit = attempt < maxAttempts ? " of \(maxAttempts)" : ""
        return "\(cause); attempt \(attempt + 1)\(limit) in \(Figures.seconds(delay))"
    }

    static func code(_ code: String) -> String {
        let words = code.replacing(#/[A-Z]/#) { " " + $0.output.lowercased() }
        return words.hasPrefix("tls ") ? "TLS" + words.dropFirst(3) : words
    }

    static func status(_ code: Int) -> String { ReasonPhrase.of(code).map { "\(code) \($0)" } ?? "\(code)" }
}

extension RunningTransfer.Wait {
    func text(maxAttempts: Int, now: ContinuousClock.Instant) -> String {
        switch self {
        case .host: "waiting for other files from the same host"
        case .answer: "waiting for the server"
        case .retry(let attempt, let cause, let due):
            Words.retry(after: cause, attempt: attempt, of: maxAttempts, in: due - now)
        }
    }
}
