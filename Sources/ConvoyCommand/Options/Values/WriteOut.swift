import Convoy
import Foundation

struct WriteOut: Sendable, Equatable {
    static let variables = """
        cache content_type errormsg exitcode filename_effective http_code response_code http_version method \
        num_connects num_redirects num_retries redirect_url remote_ip remote_port scheme size_download size_header \
        size_request size_upload speed_download speed_upload num_headers time_pretransfer time_redirect json \
        header_json time_namelookup time_connect time_appconnect time_starttransfer time_total url url_effective urlnum
        """.split(separator: " ").map(String.init)

    // They decide on which stream, or after which results, the following text is printed.
    static let directions = ["onerror", "stderr", "stdout"]

    enum Piece: Sendable, Equatable {
        case text(String)
        case variable(String)
        case direction(String)
        case field(String)
    }

    private(set) var pieces: [Piece] = []

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
        let isDirection = Self.directions.contains(name)
        guard isDirection || Self.variables.contains(name) else {
            let names = Self.variables + Self.directions
            let near =
                names.nearest(to: name).map { "; did you mean %{\($0)}?" }
                ?? "; the variables are \(names.joined(separator: ", "))"
            throw UsageError("has the unknown variable %{\(name)}\(near)")
        }
        flush(&text)
        pieces.append(isDirection ? .direction(name) : .variable(name))
    }

    private mutating func flush(_ text: inout String) {
        if !text.isEmpty { pieces.append(.text(text)) }
        text = ""
    }
}
