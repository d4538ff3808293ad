// `--verbose`: what is sent, what is answered, and over which connection.
import Convoy
import Foundation

/// Tells each attempt on standard error, as curl does: `>` what is sent, `<` what is answered, `*` what is known beside.
///
/// Lines of requests that run at the same time are told apart by the number of their URL. Values of secret fields, user
/// names and passwords of URLs are left out.
struct VerboseLog: EventMonitor {
    private let console: Console

    init(_ proxy: ConnectionOptions.Proxy, console: Console) {
        self.console = console
        switch proxy {
        case .environment:
            let environment = ProcessInfo.processInfo.environment
            for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
                guard let value = environment[name], !value.isEmpty else { continue }
                let shown = value.lastIndex(of: "@").map { "***" + value[$0...] } ?? value
                console.printError("* \(name) is \(shown)")
            }
        case .direct: console.printError("* no proxy")
        case .server: console.printError("* by the proxy \(proxy)")
        }
    }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        let number = operation.tags.first.flatMap { Int($0) }.map { $0 + 1 }
        let place = number.map { "\($0)" } ?? ""
        func tell(_ mark: Character, _ text: String) { console.printError("\(place) \(mark) \(text)") }
        switch event {
        case .response(let head):
            tell("<", "\(head.statusCode)")
            for field in head.headerFields { tell("<", field.description) }
        case .started(let attempt):
            tell(
                "*",
                "attempt \(attempt): \(operation.attempts.last { $0.target != nil }?.target ?? operation.request?.url.redactedString ?? "")"
            )
        case .attemptEnded(let record): self.tell(record, tell)
        case .finished(let error):
            // One that another was to follow has been told when it ended.
            if let record = operation.attempts.last, record.next == .outcome { self.tell(record, tell) }
            if let error { tell("*", error.message) }
        default: break
        }
    }

    private func tell(_ record: AttemptRecord, _ tell: (Character, String) -> Void) {
        tell(">", "\(record.method) \(record.url.redactedString)")
        for field in record.request.headerFields { tell(">", field.description) }
        if let metrics = record.metrics {
            var words = ["\(metrics.remoteAddress) port \(metrics.remotePort)", "HTTP/\(metrics.httpVersion)"]
            words.append(metrics.isReusedConnection ? "a connection used again" : "a new connection")
            if metrics.nameLookup > .zero { words.append("name after \(Figures.time(metrics.nameLookup))") }
            if metrics.connect > .zero { words.append("connected after \(Figures.time(metrics.connect))") }
            if metrics.secureConnect > .zero {
                let version = metrics.tlsVersion.isEmpty ? "" : " \(metrics.tlsVersion)"
                let cipher = metrics.tlsCipher.isEmpty ? "" : " with \(metrics.tlsCipher)"
                words.append("TLS\(version)\(cipher) after \(Figures.time(metrics.secureConnect))")
            }
            words.append("first byte after \(Figures.time(metrics.firstByte))")
            words.append("all after \(Figures.time(metrics.total))")
            tell("*", words.joined(separator: ", "))
        }
        if let failure = record.failure { tell("*", "failed: \(record.message ?? Words.code(failure.rawValue))") }
        switch record.next {
        case .redirect(let target): tell("*", "redirected to \(target.redactedString)")
        case .retry(let delay): tell("*", "again in \(Figures.time(delay))")
        default: break
        }
    }
}

extension AttemptRecord {
    /// Where a redirect leads; nil without one.
    fileprivate var target: String? { if case .redirect(let url) = next { url.redactedString } else { nil } }
}
