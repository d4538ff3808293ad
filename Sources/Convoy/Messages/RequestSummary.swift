// What a request is called in errors and logs.
import Foundation

/// Names a request for people, without credentials; put into words only when somebody reads it.
struct RequestSummary: Sendable, CustomStringConvertible {
    private let text: String?
    private let method: HTTPMethod?
    private let url: URL?

    init(text: String) {
        self.text = text
        method = nil
        url = nil
    }

    init(method: HTTPMethod, url: URL?) {
        text = nil
        self.method = method
        self.url = url
    }

    var isEmpty: Bool { text == "" }

    var description: String {
        if let text { return text }
        // A method may be anything until it has been checked.
        let method = method?.rawValue.debugDescription.dropFirst().dropLast() ?? ""
        return "\(method) \(url?.redactedString ?? "(no URL)")".oneLine
    }
}

extension RequestSummary: CustomReflectable {
    /// The description only: a reflection would show what it leaves out.
    var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

extension RequestCore: CustomReflectable {
    /// The summary only, as for a request.
    var customMirror: Mirror { Mirror(self, children: ["request": summary.description]) }
}

extension String {
    /// The text as one line: what a server, a decoder or a caller gave may have line ends, or move the cursor of a
    /// terminal.
    var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension Unicode.Scalar {
    /// Whether this is a control character or one that ends a line.
    var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}

extension RequestCore {
    var summary: RequestSummary { RequestSummary(method: method, url: url) }
}

extension PreparedRequest {
    var summary: RequestSummary { RequestSummary(method: method, url: url) }
}
