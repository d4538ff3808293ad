import Convoy
import Foundation

// The format is that of curl: `>` for the request, `<` for the response, `*` for other information.
struct VerboseLog: EventMonitor {
    private let console: Console
    /// Whether to show fields that are marked as secret only because any field may be a key.
    private let showsMarked: Bool
    /// The number of the last attempt of which each part was printed.
    private struct Printed {
        var (sent, answered, ended, current) = (0, 0, 0, 0)
    }

    private let printed = Locked<[String: Printed]>([:])
    private let queue = DispatchQueue(label: "convoy.verbose")

    init(_ proxy: ConnectionOptions.Proxy, console: Console, showsMarked: Bool) {
        (self.console, self.showsMarked) = (console, showsMarked)
        switch proxy {
        case .environment:
            let environment = ProcessInfo.processInfo.environment
            for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
                guard let value = environment[name], !value.isEmpty else { continue }
                let shown = value.lastIndex(of: "@").map { "***" + value[$0...] } ?? value
                console.printError("* \(name) is \(shown)")
            }
        case .direct: console.printError("* no proxy")
        case .server: console.printError("* through the proxy \(proxy)")
        }
    }

    // The interceptor must be the last one, because earlier interceptors may change the request.
    func sending(_ tag: String) -> any RequestInterceptor { SentLog(log: self, tag: tag) }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        let tag = operation.tags.first ?? ""
        queue.sync {
            switch event {
            case .started(let attempt): printed.withLock { $0[tag, default: Printed()].current = attempt }
            case .response(let head):
                printResponse(head, attempt: printed.withLock { $0[tag]?.current ?? 0 }, tag)
            case .attemptEnded(let record): tell(record, tag)
            case .finished(let error):
                // Earlier attempts were printed when they ended, so only the last attempt is printed here.
                if let record = operation.attempts.last, record.next == .outcome { tell(record, tag) }
                if let error { tell(tag, "*", error.message) }
                printed.withLock { $0[tag] = nil }
            default: break
            }
        }
    }

    private func claim(_ place: WritableKeyPath<Printed, Int>, _ attempt: Int, _ tag: String) -> Bool {
        printed.withLock { printed in
            guard attempt > printed[tag, default: Printed()][keyPath: place] else { return false }
            printed[tag, default: Printed()][keyPath: place] = attempt
            return true
        }
    }

    private func tell(_ tag: String, _ mark: Character, _ text: String) {
        console.printError("\(Int(tag).map { "\($0 + 1)" } ?? "") \(mark) \(text)")
    }

    fileprivate func isSending(_ request: PreparedRequest, _ attempt: AttemptContext, _ tag: String) {
        queue.sync {
            for record in attempt.earlierAttempts { tell(record, tag) }
            printRequest(request, attempt: attempt.number, tag)
        }
    }

    private func printResponse(_ head: ResponseHead, attempt: Int, _ tag: String) {
        guard claim(\.answered, attempt, tag) else { return }
        tell(tag, "<", "\(head.statusCode)")
        for field in head.headerFields { tell(tag, "<", shown(field)) }
    }

    private func printRequest(_ request: PreparedRequest, attempt: Int, _ tag: String) {
        guard claim(\.sent, attempt, tag) else { return }
        let url = request.url.redactedString
        tell(tag, "*", "attempt \(attempt): \(url)")
        tell(tag, ">", "\(request.method) \(url)")
        func isDefault(_ name: String) -> Bool {
            !request.headerFields.contains(name) && !request.omittedFields.contains(name.lowercased())
        }
        if isDefault("Host"), let host = request.url.host() {
            tell(tag, ">", "Host: \(host)\(request.url.port.map { ":\($0)" } ?? "")")
        }
        if isDefault("User-Agent") { tell(tag, ">", "User-Agent: Convoy") }
        for field in request.headerFields { tell(tag, ">", shown(field)) }
    }

    private func shown(_ field: HeaderFields.Field) -> String {
        (showsMarked ? HeaderFields.Field(name: field.name, value: field.value) : field).shown
    }

    private func tell(_ record: AttemptRecord, _ tag: String) {
        guard claim(\.ended, record.number, tag) else { return }
        printRequest(record.request, attempt: record.number, tag)
        if let head = record.response { printResponse(head, attempt: record.number, tag) }
        func tell(_ mark: Character, _ text: String) { self.tell(tag, mark, text) }
        let cache = record.metrics?.cache
        if let cache {
            tell("*", (cache.isHit ? "from the cache, no request sent: " : "cache: ") + cache.description)
        }
        if let metrics = record.metrics, cache?.isHit != true {
            var words = metrics.remoteAddress.isEmpty ? [] : ["\(metrics.remoteAddress) port \(metrics.remotePort)"]
            if !metrics.httpVersion.isEmpty { words.append("HTTP/\(metrics.httpVersion)") }
            let opened = metrics.hasOpenedConnection ? "new connection" : "no connection"
            words.append(metrics.isReusedConnection ? "reused connection" : opened)
            if metrics.nameLookup > .zero { words.append("name lookup after \(Figures.time(metrics.nameLookup))") }
            if metrics.connect > .zero { words.append("connected after \(Figures.time(metrics.connect))") }
            if metrics.secureConnect > .zero {
                let version = metrics.tlsVersion.isEmpty ? "" : " \(metrics.tlsVersion)"
                let cipher = metrics.tlsCipher.isEmpty ? "" : " with \(metrics.tlsCipher)"
                words.append("TLS\(version)\(cipher) after \(Figures.time(metrics.secureConnect))")
            }
            if metrics.firstByte > .zero { words.append("first byte after \(Figures.time(metrics.firstByte))") }
            words.append("complete after \(Figures.time(metrics.total))")
            tell("*", words.joined(separator: ", "))
        }
        if let failure = record.failure {
            tell("*", "failed: " + (record.message ?? Words.code(failure.rawValue)))
        }
        switch record.next {
        case .redirect(let target): tell("*", "redirected to \(target.redactedString)")
        case .retry(let delay): tell("*", "retry in \(Figures.time(delay))")
        default: break
        }
    }
}

private struct SentLog: RequestInterceptor {
    let log: VerboseLog
    let tag: String

    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        log.isSending(request, attempt, tag)
        return request
    }
}
