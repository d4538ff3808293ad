// Passwords of hosts: ~/.netrc.
import Foundation

/// User names and passwords by host, in the format of ftp(1).
struct Netrc: Sendable {
    struct Login: Sendable, Equatable {
        var user = ""
        var password = ""
    }

    /// The logins in the order of the file; the default login has no host.
    private var logins: [(host: String?, login: Login)] = []

    /// Parses a file.
    ///
    /// As in other programs, keywords have either case, and unknown text is ignored.
    init(_ text: String) {
        var words = Self.words(of: text)[...]
        while let word = words.popFirst() {
            switch (word.lowercased(), logins.indices.last) {
            case ("machine", _): logins.append((words.popFirst()?.lowercased() ?? "", Login()))
            case ("default", _): logins.append((nil, Login()))
            case ("login", let last?): logins[last].login.user = words.popFirst() ?? ""
            case ("password", let last?): logins[last].login.password = words.popFirst() ?? ""
            case ("account", _): words = words.dropFirst()
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

    /// The words of a text.
    ///
    /// Quoted words may contain white space.
    ///
    /// Comments and macros are skipped.
    private static func words(of text: String) -> [String] {
        var words: [String] = []
        var isMacro = false
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            let line = line.trimmingCharacters(in: .whitespaces)
            if isMacro {
                // A macro ends at an empty line.
                isMacro = !line.isEmpty
                continue
            }
            guard !line.hasPrefix("#") else { continue }
            if line.lowercased().hasPrefix("macdef") {
                isMacro = true
                continue
            }
            words += quotedWords(of: line)
        }
        return words
    }

    private static func quotedWords(of line: String) -> [String] {
        // Matches a quoted word and the text directly after it, or a plain word. The closing quote may be missing.
        line.matches(of: #/"((?:[^"\\]|\\.)*)\\?"?([^ \t]*)|[^ \t]+/#).map { match in
            guard let quoted = match.1 else { return String(match.0) }
            return String(quoted.replacing(#/\\(.)/#) { $0.1 } + (match.2 ?? ""))
        }
    }
}
