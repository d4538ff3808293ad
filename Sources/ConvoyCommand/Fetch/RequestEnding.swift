// The result of a request, for printing.
import Convoy
import Foundation

/// The details of a response or an error.
struct RequestEnding: Sendable {
    let item: FetchItem
    let head: ResponseHead?
    let attempts: [AttemptRecord]
    let bytes: Int64
    let sentBytes: Int64
    let error: RequestError?
    let fileName: String
    private let otherSecrets: Set<String>

    /// - Parameters:
    ///   - isUnchanged: whether the result counts as a success because the server has nothing newer.
    ///   - secrets: secrets that no URL and no message may show, besides those of the requests.
    init<Value>(
        _ item: FetchItem, _ result: Result<Response<Value>, RequestError>, isUnchanged: Bool = false,
        hiding secrets: Set<String>
    ) {
        (self.item, otherSecrets) = (item, secrets)
        switch result {
        case .success(let response):
            (head, attempts, error) = (response.head, response.attempts, nil)
            (bytes, sentBytes) = (response.transfer.download.completedBytes, response.transfer.upload.completedBytes)
            fileName = (response.value as? URL).map(item.name(of:)) ?? item.fileName
        case .failure(let error):
            (head, attempts, self.error) = (error.response, error.attempts, isUnchanged ? nil : error)
            let transfer = error.attempts.last?.transfer
            (bytes, sentBytes) = (transfer?.download.completedBytes ?? 0, transfer?.upload.completedBytes ?? 0)
            fileName = item.fileName
        }
    }

    private var metrics: TransferMetrics? { attempts.last?.metrics }
    private var url: URL { attempts.last?.url ?? item.url }
    private var secrets: SentSecrets { SentSecrets(of: attempts.map(\.request), and: otherSecrets) }

    /// The value of a variable in curl's format.
    ///
    /// The times are those of the last attempt, except the time of redirects.
    func value(of variable: WriteOut.Variable) -> String {
        switch variable {
        case .cache: return attempts.cacheOutcome?.rawValue ?? ""
        case .contentType: return head?.headerFields["Content-Type"] ?? ""
        case .errorMessage: return error.map { secrets.hidden(in: $0.message) } ?? ""
        case .exitCode: return error == nil ? "0" : "1"
        case .fileName: return fileName
        case .httpCode, .responseCode:
            let digits = String(head?.statusCode ?? 0)
            return String(repeating: "0", count: max(0, 3 - digits.count)) + digits
        case .httpVersion: return metrics?.sentVersion ?? "0"
        case .method: return (attempts.last?.method ?? .get).rawValue
        case .connectCount: return String(attempts.count { $0.metrics?.hasOpenedConnection == true })
        case .redirectCount: return String(attempts.count { if case .redirect = $0.next { true } else { false } })
        case .retryCount: return String(attempts.count { if case .retry = $0.next { true } else { false } })
        case .redirectURL:
            guard let location = head?.headerFields["Location"] else { return "" }
            return location.requestURL(at: url).map(secrets.shown) ?? ""
        case .remoteAddress: return metrics?.remoteAddress ?? ""
        case .remotePort: return String(metrics?.remotePort ?? 0)
        case .scheme: return url.scheme ?? ""
        case .downloadBytes: return String(bytes)
        case .headerBytes: return String(metrics?.receivedHeaderBytes ?? 0)
        case .requestBytes: return String(metrics?.sentHeaderBytes ?? 0)
        case .uploadBytes: return String(sentBytes)
        case .downloadSpeed:
            let seconds = metrics?.total.inSeconds ?? 0
            return seconds > 0 ? String(Int64(Double(bytes) / seconds)) : "0"
        case .uploadSpeed:
            let seconds = metrics?.total.inSeconds ?? 0
            return seconds > 0 ? String(Int64(Double(sentBytes) / seconds)) : "0"
        case .headerCount: return String(head?.headerFields.count ?? 0)
        case .preTransferTime:
            // The time until the request could be sent.
            return Self.text(metrics.map { max($0.connect, $0.secureConnect, $0.nameLookup) })
        case .redirectTime: return Self.text(redirectTime)
        case .json: return json
        case .headerJSON: return headerJSON
        case .nameLookupTime: return Self.text(metrics?.nameLookup)
        case .connectTime: return Self.text(metrics?.connect)
        case .secureConnectTime: return Self.text(metrics?.secureConnect)
        case .firstByteTime: return Self.text(metrics?.firstByte)
        case .totalTime: return Self.text(metrics?.total)
        case .url: return item.url.redactedString
        case .effectiveURL: return attempts.count > 1 ? secrets.shown(url) : url.redactedString
        case .urlNumber: return String(item.index)
        }
    }

    /// The time from the start of the first attempt to the start of the last; nil without a redirect.
    private var redirectTime: Duration? {
        let isRedirected = attempts.contains { if case .redirect = $0.next { true } else { false } }
        guard isRedirected, let first = attempts.first, let last = attempts.last else { return nil }
        return last.started - first.started
    }

    /// The heads of all responses, including redirects, with the line ends of HTTP.
    var headTexts: String {
        attempts.compactMap { record in
            record.response.map { head in
                let version = record.metrics?.sentVersion ?? "1.1"
                let status = version.hasPrefix("1") ? Words.status(head.statusCode) : "\(head.statusCode)"
                let fields = head.headerFields.map { "\($0.name): \($0.value)\r\n" }.joined()
                return "HTTP/\(version) \(status)\r\n\(fields)\r\n"
            }
        }.joined()
    }

    private static func text(_ duration: Duration?) -> String {
        let microseconds = Int64(((duration?.inSeconds ?? 0) * 1e6).rounded())
        let fraction = String(microseconds % 1_000_000)
        return "\(microseconds / 1_000_000)." + String(repeating: "0", count: 6 - fraction.count) + fraction
    }
}

extension TransferMetrics {
    /// Whether the attempt has connected; false also if it could not connect.
    var hasOpenedConnection: Bool { !isReusedConnection && connect > .zero }
    /// The version of HTTP; nil if nothing was sent.
    fileprivate var sentVersion: String? { httpVersion.isEmpty ? nil : httpVersion }
}

extension WriteOut {
    /// The text for the result of a request.
    func text(of ending: RequestEnding) -> String {
        pieces.map { piece in
            switch piece {
            case .text(let text): text
            case .variable(let variable): ending.value(of: variable)
            case .field(let name): ending.head?.headerFields.values(of: name).first ?? ""
            }
        }.joined()
    }
}
