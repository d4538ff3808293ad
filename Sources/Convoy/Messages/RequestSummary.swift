// The name of a request in errors and logs.
import Foundation

/// Names a request without credentials.
///
/// The text is made only when it is read.
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

    /// The same summary, with a relative URL resolved.
    func resolved(_ resolve: (URL) -> URL?) -> RequestSummary {
        guard let method, let url, url.scheme == nil, let resolved = resolve(url) else { return self }
        return RequestSummary(method: method, url: resolved)
    }

    var isEmpty: Bool { text == "" }

    var description: String {
        if let text { return text }
        // A method may contain any characters until it has been checked.
        let method = method?.rawValue.debugDescription.dropFirst().dropLast() ?? ""
        return "\(method) \(url?.redactedString ?? "(no URL)")".oneLine
    }
}

extension RequestSummary: CustomReflectable {
    /// A mirror of the description only, because a reflection of the properties would show credentials.
    var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}

extension PreparedRequest {
    var summary: RequestSummary { RequestSummary(method: method, url: url) }
}
