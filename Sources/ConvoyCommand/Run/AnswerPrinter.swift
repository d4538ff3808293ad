import Convoy
import ConvoyHTTPFile
import Foundation

struct AnswerPrinter: Sendable {
    private let options: RunOptions
    private let output: StandardOutputStream.State
    private let isTerminal = Terminal.output.isTerminal
    private let hasColour = Terminal.output.hasColour

    init(_ options: RunOptions, onClosed: @escaping @Sendable () -> Void) {
        self.options = options
        output = StandardOutputStream.State(onClosed: onClosed)
    }

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

// Numbers, texts and order are unchanged; the escapes of characters in texts are normalised.
struct PrettyJSON {
    let text: String

    init?(_ json: String, hasColour: Bool) {
        guard let value = try? JSONReader.read(Array(json.utf8)) else { return nil }
        text = Self.text(of: value, newLine: "\n", hasColour)
    }

    private static func text(of value: JSONValue, newLine: String, _ hasColour: Bool) -> String {
        let inner = newLine + "  "
        func coloured(_ word: String, _ number: Int) -> String {
            hasColour ? "\u{1B}[\(number)m\(word.unsafeEscaped)\u{1B}[m" : word.unsafeEscaped
        }
        func lines(_ open: String, _ parts: [String], _ close: String) -> String {
            parts.isEmpty ? open + close : open + inner + parts.joined(separator: "," + inner) + newLine + close
        }
        switch value {
        case .array(let elements):
            return lines("[", elements.map { text(of: $0, newLine: inner, hasColour) }, "]")
        case .object(let members):
            let parts = members.map {
                coloured($0.name.jsonQuoted, 34) + ": " + text(of: $0.value, newLine: inner, hasColour)
            }
            return lines("{", parts, "}")
        case .string: return coloured(value.json, 32)
        case .null, .bool, .number: return coloured(value.json, 33)
        }
    }
}

extension RunAnswer {
    fileprivate var data: Data? {
        switch body {
        case .memory(let data): data
        case .file(let url): try? Data(contentsOf: url, options: .mappedIfSafe)
        case .dropped: nil
        }
    }
}

extension PlannedRequest {
    var givenName: String? {
        request.name == nil && request.title == nil || label == "\(method) \(shownTarget)" ? nil : label
    }
}
