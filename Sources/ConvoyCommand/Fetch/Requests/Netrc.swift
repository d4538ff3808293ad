// Passwords of hosts: ~/.netrc.
import Foundation

/// User names and passwords by host, in the format of ftp(1).
struct Netrc: Sendable, Equatable {
    struct Login: Sendable, Equatable {
        var user = ""
        var password = ""
    }

    private var logins: [String: Login] = [:]
    private var other: Login?

    /// Parses a file.
    ///
    /// Unknown text is ignored, as in other programs.
    init(_ text: String) {
        var words = Self.words(of: text)[...]
        var (host, login): (String?, Login?) = (nil, nil)
        func note(_ netrc: inout Netrc) {
            guard let login else { return }
            // The first entry for a host is used.
            if let host { if netrc.logins[host] == nil { netrc.logins[host] = login } } else { netrc.other = login }
        }
        while let word = words.popFirst() {
            switch word {
            case "machine":
                note(&self)
                (host, login) = (words.popFirst()?.lowercased(), Login())
            case "default":
                note(&self)
                (host, login) = (nil, Login())
            case "login": login?.user = words.popFirst() ?? ""
            case "password": login?.password = words.popFirst() ?? ""
            case "account": words = words.dropFirst()
            default: break
            }
        }
        note(&self)
    }

    /// The login for a host, or else the default login; nil if the file has none with a user name.
    func login(for host: String?) -> Login? {
        let login = host.flatMap { logins[$0.lowercased()] } ?? other
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
            if line.hasPrefix("macdef") {
                isMacro = true
                continue
            }
            words += quotedWords(of: line)
        }
        return words
    }

    private static func quotedWords(of line: String) -> [String] {
        var (words, word): ([String], String?) = ([], nil)
        var (isQuoted, isEscaped) = (false, false)
        for character in line {
            switch character {
            case _ where isEscaped:
                word = (word ?? "") + String(character)
                isEscaped = false
            case "\\" where isQuoted: isEscaped = true
            case "\"" where isQuoted || word == nil:
                isQuoted.toggle()
                word = word ?? ""
            case " ", "\t":
                if isQuoted {
                    word?.append(character)
                } else if let end = word {
                    words.append(end)
                    word = nil
                }
            default: word = (word ?? "") + String(character)
            }
        }
        return words + [word].compactMap(\.self)
    }
}
