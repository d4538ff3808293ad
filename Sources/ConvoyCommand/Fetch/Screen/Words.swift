// Readable texts for numbers and codes.
import Convoy
import Foundation

enum Words {
    /// Why an attempt failed, without the details in parentheses, which the end of the request reports.
    static func cause(_ record: AttemptRecord) -> String {
        if let message = record.message {
            return message.range(of: " (").map { String(message[..<$0.lowerBound]) } ?? message
        }
        return record.statusCode.map(status) ?? "no response"
    }

    static func cause(_ error: RequestError, without secrets: SentSecrets) -> String {
        guard error.code == .unacceptableStatus, let head = error.response else {
            return secrets.hidden(in: error.message)
        }
        let answer = secrets.hidden(in: error.message).replacing(
            "the server answered \(head.statusCode)", with: status(head.statusCode))
        let text = String(decoding: error.body?.prefix(200) ?? Data(), as: UTF8.self)
        guard head.headerFields["Content-Type"]?.lowercased().hasPrefix("text/plain") == true,
            let line = text.split(whereSeparator: \.isNewline).map({ String($0).trimmed }).first(where: { !$0.isEmpty })
        else { return answer }
        return "\(answer): \(secrets.hidden(in: line))"
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

    static func firstLines(of error: RequestError, without secrets: SentSecrets) -> [String] {
        guard error.code == .unacceptableStatus, let head = error.response, let body = error.body else { return [] }
        let type = head.headerFields["Content-Type"]?.lowercased() ?? ""
        // The first line of a plain text is already shown after the status.
        let isPlain = type.hasPrefix("text/plain")
        guard isPlain || ["json", "xml", "yaml", "x-www-form"].contains(where: { type.contains($0) }),
            !type.contains("html")
        else { return [] }
        let text = secrets.hidden(in: String(decoding: body.prefix(2_000), as: UTF8.self))
        let lines = text.split(whereSeparator: \.isNewline).map(String.init)
        return lines.dropFirst(isPlain ? 1 : 0).prefix(5).map { $0.clipped(toColumns: 200) }
    }
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
