// `--write-out`: a text with curl's variables, printed after each URL.
import Convoy
import Foundation

/// A parsed format of `--write-out`.
struct WriteOut: Sendable, Equatable {
    /// The supported variables: those of curl, and `cache`.
    enum Variable: String, CaseIterable, Sendable {
        case cache
        case contentType = "content_type"
        case errorMessage = "errormsg"
        case exitCode = "exitcode"
        case fileName = "filename_effective"
        case httpCode = "http_code"
        case responseCode = "response_code"
        case httpVersion = "http_version"
        case method
        case connectCount = "num_connects"
        case redirectCount = "num_redirects"
        case retryCount = "num_retries"
        case redirectURL = "redirect_url"
        case remoteAddress = "remote_ip"
        case remotePort = "remote_port"
        case scheme
        case downloadBytes = "size_download"
        case headerBytes = "size_header"
        case requestBytes = "size_request"
        case uploadBytes = "size_upload"
        case downloadSpeed = "speed_download"
        case uploadSpeed = "speed_upload"
        case headerCount = "num_headers"
        case preTransferTime = "time_pretransfer"
        case redirectTime = "time_redirect"
        case json
        case headerJSON = "header_json"
        case nameLookupTime = "time_namelookup"
        case connectTime = "time_connect"
        case secureConnectTime = "time_appconnect"
        case firstByteTime = "time_starttransfer"
        case totalTime = "time_total"
        case url
        case effectiveURL = "url_effective"
        case urlNumber = "urlnum"

        /// Whether curl writes the variable as a number in `%{json}`.
        var isNumber: Bool {
            switch self {
            case .exitCode, .httpCode, .responseCode, .connectCount, .redirectCount, .retryCount, .remotePort,
                .downloadBytes, .headerBytes, .requestBytes, .uploadBytes, .downloadSpeed, .uploadSpeed, .headerCount,
                .preTransferTime, .redirectTime, .nameLookupTime, .connectTime, .secureConnectTime, .firstByteTime,
                .totalTime, .urlNumber:
                true
            default: false
            }
        }
    }

    enum Piece: Sendable, Equatable {
        case text(String)
        case variable(Variable)
        /// The value of a header field of the response.
        case field(String)
    }

    private(set) var pieces: [Piece] = []

    /// - Parameter format: the text, or `@` and the name of a file that contains it.
    init(_ format: String) throws(UsageError) {
        let format =
            format.hasPrefix("@")
            ? String(decoding: try OptionValues.content(of: String(format.dropFirst())), as: UTF8.self) : format
        var (rest, text) = (Substring(format), "")
        while let character = rest.popFirst() {
            switch (character, rest.first) {
            case ("%", "%"?):
                text.append("%")
                rest.removeFirst()
            case ("%", "{"?): try add(Self.name(&rest), behind: &text)
            case ("%", _) where rest.hasPrefix("header{"):
                rest.removeFirst(6)
                flush(&text)
                pieces.append(.field(try Self.name(&rest)))
            case ("\\", let next?):
                rest.removeFirst()
                switch next {
                case "n": text.append("\n")
                case "r": text.append("\r")
                case "t": text.append("\t")
                default: text += "\\\(next)"
                }
            default: text.append(character)
            }
        }
        flush(&text)
    }

    private static func name(_ rest: inout Substring) throws(UsageError) -> String {
        guard let end = rest.firstIndex(of: "}") else {
            throw UsageError("has an opening brace without a closing one; write a variable as %{NAME}")
        }
        let name = String(rest[rest.index(after: rest.startIndex)..<end])
        rest = rest[rest.index(after: end)...]
        return name
    }

    private mutating func add(_ name: String, behind text: inout String) throws(UsageError) {
        guard let variable = Variable(rawValue: name) else {
            let known = Variable.allCases.map(\.rawValue)
            let near =
                known.nearest(to: name).map { "; did you mean %{\($0)}?" }
                ?? "; the variables are \(known.joined(separator: ", "))"
            throw UsageError("has the unknown variable %{\(name)}\(near)")
        }
        flush(&text)
        pieces.append(.variable(variable))
    }

    private mutating func flush(_ text: inout String) {
        if !text.isEmpty { pieces.append(.text(text)) }
        text = ""
    }
}
