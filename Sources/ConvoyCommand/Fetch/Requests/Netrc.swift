import Foundation

struct Netrc: Sendable {
    struct Login: Sendable, Equatable {
        var user = ""
        var password = ""
    }

    private var logins: [(host: String?, login: Login)] = []

    init(_ text: String) {
        var words = Self.words(of: text)[...]
        func value() -> String {
            words = words.drop { $0 == Self.emptyLine }
            return words.popFirst() ?? ""
        }
        while let word = words.popFirst() {
            switch (word.lowercased(), logins.indices.last) {
            case ("machine", _): logins.append((value().lowercased(), Login()))
            case ("default", _): logins.append((nil, Login()))
            case ("login", let last?): logins[last].login.user = value()
            case ("password", let last?): logins[last].login.password = value()
            case ("account", _): _ = value()
            // A macro ends at an empty line.
            case ("macdef", _): words = words.drop { $0 != Self.emptyLine }
            default: break
            }
        }
    }

    /// The first login for a host, or else the last default login; nil if there is none, or if it has no user name.
    func login(for host: String?) -> Login? {
        let own = host.flatMap { host in logins.first { $0.host == host.lowercased() } }
        let login = (own ?? logins.last { $0.host == nil })?.login
        return login.flatMap { $0.user.isEmpty ? nil : $0 }
    }

    private static let emptyLine = "\n"

    private static func words(of text: String) -> [String] {
        text.trimmingPrefix("\u{FEFF}").split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            .flatMap { line -> [String] in
                let line = line.trimmingCharacters(in: .whitespaces)
                return line.isEmpty ? [emptyLine] : line.hasPrefix("#") ? [] : quotedWords(of: line)
            }
    }

    private static func quotedWords(of line: String) -> [String] {
        line.matches(of: #/"((?:[^"\\]|\\.)*)\\?"?([^ \t]*)|[^ \t]+/#).map { match in
            guard let quoted = match.1 else { return String(match.0) }
            return String(quoted.replacing(#/\\(.)/#) { $0.1 } + (match.2 ?? ""))
        }
    }
}
