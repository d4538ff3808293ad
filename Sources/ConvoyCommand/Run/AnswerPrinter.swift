// Prints responses on standard output: `--show` and `-o NAME=-`.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Prints the heads and bodies of responses, as the options request.
struct AnswerPrinter: Sendable {
    private let options: RunOptions
    private let output: StandardOutputStream.State
    private let isTerminal = Terminal.output.isTerminal
    private let hasColour = Terminal.output.hasColour

    init(_ options: RunOptions, onClosed: @escaping @Sendable () -> Void) {
        self.options = options
        output = StandardOutputStream.State(onClosed: onClosed)
    }

    /// Prints the result of a request.
    ///
    /// - Returns: 0, or the `errno` of a failed write.
    func show(_ request: PlannedRequest, _ outcome: GraphRun.Outcome) -> Int32 {
        let (head, body): (ResponseHead?, Data?) =
            switch outcome {
            case .success(let response): (response.head, response.value.data)
            case .failure(let error): (error.response, error.body)
            }
        var code: Int32 = 0
        if let head, options.show == .head || options.show == .both { code = write(head) }
        guard code == 0, let body, options.showsBody(of: request) else { return code }
        return isTerminal && !options.prints(request) ? write(onTerminal: body, head) : output.write(body: body)
    }

    private func write(_ head: ResponseHead) -> Int32 {
        let fields = head.headerFields.map { "\($0.name): \($0.value)\n" }.joined()
        let text = "HTTP \(Words.status(head.statusCode))\n\(fields)\n"
        return output.write(isTerminal ? text.visible(keepsNewlines: true) : text)
    }

    private func write(onTerminal body: Data, _ head: ResponseHead?) -> Int32 {
        guard !body.contains(0) else { return output.write("(\(Figures.bytes(Int64(body.count))) of binary data)\n") }
        var terminal = TerminalText()
        let text = terminal.take(body) + terminal.rest
        let isJSON = head?.headerFields["Content-Type"]?.lowercased().contains("json") == true
        let shown = isJSON ? PrettyJSON(text, hasColour: hasColour)?.text ?? text : text
        return output.write(shown.isEmpty || shown.hasSuffix("\n") ? shown : shown + "\n")
    }
}

/// Formats JSON with one member on each line.
///
/// Numbers, texts and order are unchanged.
struct PrettyJSON {
    private(set) var text = ""

    /// Nil when the text is not JSON.
    init?(_ json: String, hasColour: Bool) {
        guard (try? JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)) != nil else {
            return nil
        }
        var (depth, rest) = (0, json.unicodeScalars[...])
        func newLine() -> String { "\n" + String(repeating: "  ", count: depth) }
        func coloured(_ word: String, _ number: Int) -> String {
            hasColour ? "\u{1B}[\(number)m\(word)\u{1B}[m" : word
        }
        while let scalar = rest.popFirst() {
            switch scalar {
            case " ", "\n", "\r", "\t": continue
            case "{", "[":
                rest = rest.drop { " \n\r\t".unicodeScalars.contains($0) }
                if rest.first == "}" || rest.first == "]" {
                    text += String(scalar) + String(rest.removeFirst())
                    continue
                }
                depth += 1
                text += String(scalar) + newLine()
            case "}", "]":
                depth = max(0, depth - 1)
                text += newLine() + String(scalar)
            case ",": text += "," + newLine()
            case ":": text += ": "
            case "\"":
                let word = "\"" + Self.string(&rest)
                let isName = rest.first { !" \n\r\t".unicodeScalars.contains($0) } == ":"
                text += coloured(word, isName ? 34 : 32)
            default:
                let end = rest.firstIndex { ",]} \n\r\t".unicodeScalars.contains($0) } ?? rest.endIndex
                text += coloured(String(scalar) + String(rest[..<end]), 33)
                rest = rest[end...]
            }
        }
    }

    /// Removes and returns the rest of a JSON string, including the closing quote.
    private static func string(_ rest: inout Substring.UnicodeScalarView) -> String {
        var (word, isEscaped) = (String.UnicodeScalarView(), false)
        while let scalar = rest.popFirst() {
            word.append(scalar)
            if scalar == "\"", !isEscaped { break }
            isEscaped = scalar == "\\" && !isEscaped
        }
        return String(word)
    }
}

extension RunAnswer {
    /// The body of the response; nil if the body was dropped or cannot be read.
    fileprivate var data: Data? {
        switch body {
        case .memory(let data): data
        case .file(let url): try? Data(contentsOf: url, options: .mappedIfSafe)
        case .dropped: nil
        }
    }
}

extension PlannedRequest {
    /// The request's name in the file; nil if the label is only method and URL.
    var givenName: String? {
        request.name == nil && request.title == nil || label == "\(method) \(shownTarget)" ? nil : label
    }
}
