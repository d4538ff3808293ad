import Convoy
import ConvoyHTTPFile
import Foundation

extension FetchOutcome {
    var head: ResponseHead? {
        switch result {
        case .success(let success): success.head
        case .failure(let error): error.response
        }
    }

    private var success: Success? { try? result.get() }
    private var transfer: TransferProgress? { attempts.last?.transfer }
    private var metrics: TransferMetrics? { attempts.last?.metrics }
    private var url: URL { attempts.last?.url ?? item.url }

    // A JSON number if curl writes a number in `%{json}`. Only `time_redirect` covers attempts before the last one.
    func value(of variable: String) -> JSONValue? {
        switch variable {
        case "cache": .string(attempts.cacheOutcome?.rawValue ?? "")
        case "content_type": .string(head?.headerFields["Content-Type"] ?? "")
        case "errormsg": .string(error?.message ?? "")
        case "exitcode": error == nil ? 0 : 1
        case "filename_effective": .string(output)
        case "http_code", "response_code": .number(String(format: "%03d", head?.statusCode ?? 0))
        case "http_version": .string(metrics?.sentVersion ?? "0")
        case "method": .string((attempts.last?.method ?? .get).rawValue)
        case "num_connects": JSONValue(attempts.count { $0.metrics?.hasOpenedConnection == true })
        case "num_redirects": JSONValue(attempts.count(where: \.isRedirected))
        case "num_retries": JSONValue(attempts.count { if case .retry = $0.next { true } else { false } })
        case "redirect_url":
            .string(head?.headerFields["Location"].flatMap { $0.requestURL(at: url)?.redactedString } ?? "")
        case "remote_ip": .string(metrics?.remoteAddress ?? "")
        case "remote_port": JSONValue(metrics?.remotePort ?? 0)
        case "scheme": .string(url.scheme ?? "")
        case "size_download": .integer(bytes)
        case "size_header": JSONValue(metrics?.receivedHeaderBytes ?? 0)
        case "size_request": JSONValue(metrics?.sentHeaderBytes ?? 0)
        case "size_upload": .integer(sentBytes)
        case "speed_download": speed(bytes)
        case "speed_upload": speed(sentBytes)
        case "num_headers": JSONValue(head?.headerFields.count ?? 0)
        // The request can be sent when the last phase of the connection has ended.
        case "time_pretransfer": Self.seconds(metrics.map { max($0.connect, $0.secureConnect, $0.nameLookup) })
        case "time_redirect": Self.seconds(redirectTime)
        case "json": .string(json)
        case "header_json": .string(headerJSON)
        case "time_namelookup": Self.seconds(metrics?.nameLookup)
        case "time_connect": Self.seconds(metrics?.connect)
        case "time_appconnect": Self.seconds(metrics?.secureConnect)
        case "time_starttransfer": Self.seconds(metrics?.firstByte)
        case "time_total": Self.seconds(metrics?.total)
        case "url": .string(item.url.redactedString)
        case "url_effective": .string(url.redactedString)
        case "urlnum": JSONValue(item.index)
        default: nil
        }
    }

    private var json: String {
        let names = WriteOut.variables.filter { !$0.hasSuffix("json") }.sorted()
        let members = names.map { name -> (String, JSONValue) in
            switch value(of: name) {
            case .string("")?, nil: (name, .null)
            // A status of three digits may begin with 0, and JSON numbers may not.
            case .number(let digits)?: (name, .number(Int(digits).map(String.init) ?? digits))
            case let value?: (name, value)
            }
        }
        return JSONValue.object(members + [("convoy_version", .string(Version.current))]).json
    }

    private var headerJSON: String {
        let fields = head?.headerFields ?? HeaderFields()
        let names = Set(fields.map { $0.name.lowercased() }).sorted()
        return JSONValue.object(names.map { ($0, JSONValue(fields.values(of: $0))) }).json
    }

    private var bytes: Int64 { success?.bytes ?? transfer?.download.completedBytes ?? 0 }
    private var sentBytes: Int64 { success?.sentBytes ?? transfer?.upload.completedBytes ?? 0 }

    private func speed(_ bytes: Int64) -> JSONValue {
        let seconds = metrics?.total.inSeconds ?? 0
        return .integer(seconds > 0 ? Int64(Double(bytes) / seconds) : 0)
    }

    private var redirectTime: Duration? {
        guard attempts.contains(where: \.isRedirected), let first = attempts.first, let last = attempts.last else {
            return nil
        }
        return last.started - first.started
    }

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

    private static func seconds(_ duration: Duration?) -> JSONValue {
        .number(String(format: "%.6f", duration?.inSeconds ?? 0))
    }
}

extension AttemptRecord {
    fileprivate var isRedirected: Bool { if case .redirect = next { true } else { false } }
}

extension TransferMetrics {
    var hasOpenedConnection: Bool { !isReusedConnection && connect > .zero }
    fileprivate var sentVersion: String? { httpVersion.isEmpty ? nil : httpVersion }
}

extension WriteOut {
    func texts(of outcome: FetchOutcome) -> [(text: String, isForErrors: Bool)] {
        var texts = [(text: "", isForErrors: false)]
        for piece in pieces {
            switch piece {
            case .text(let text): texts[texts.count - 1].text += text
            case .variable(let variable): texts[texts.count - 1].text += outcome.value(of: variable)?.text ?? ""
            case .field(let name):
                texts[texts.count - 1].text += outcome.head?.headerFields.values(of: name).first ?? ""
            case .direction("onerror"):
                // As in curl, the text after `%{onerror}` is printed only after a failure.
                if outcome.error == nil { return texts }
            case .direction(let stream): texts.append(("", stream == "stderr"))
            }
        }
        return texts
    }
}
