import Convoy
import Foundation

struct CredentialOptions: Sendable {
    enum NetrcPlace: Sendable, Equatable {
        case home
        case file(String)
    }

    private(set) var user: (name: String, password: String)?
    /// A user name without a password, which the command prompts for.
    private(set) var userWithoutPassword: String?
    var answersChallenges = false
    var netrc: NetrcPlace?
    private(set) var cookies: String?
    private(set) var cookieFiles: [String] = []
    var cookieJar: String?
    private(set) var keepsCookies = false
    var key: String?

    // Errors do not quote the value.
    mutating func setUser(_ value: String) throws(UsageError) {
        guard let text = value == "-" ? OptionValues.firstLineOfStandardInput() : value else {
            throw UsageError("- reads NAME:PASSWORD from standard input, which is empty")
        }
        guard let colon = text.firstIndex(of: ":") else {
            guard value != "-" else {
                throw UsageError("- reads NAME:PASSWORD from standard input, but found no colon")
            }
            (user, userWithoutPassword) = (nil, text)
            return
        }
        try setUser(String(text[..<colon]), String(text[text.index(after: colon)...]))
    }

    mutating func setUser(_ name: String, _ password: String) throws(UsageError) {
        (user, userWithoutPassword) = ((name, password), nil)
        _ = try authenticator(for: nil)
    }

    mutating func addCookies(_ value: String) throws(UsageError) {
        guard value.contains("=") else {
            keepsCookies = true
            if !value.isEmpty { cookieFiles.append(value) }
            return
        }
        if let defect = Request<Data>.get("http://localhost/").header("Cookie", value).defect {
            throw UsageError(": \(defect)")
        }
        cookies = cookies.map { $0 + "; " + value } ?? value
    }

    func authenticator(
        for others: (user: String, password: String, url: URL)?
    ) throws(UsageError) -> PasswordAuthenticator? {
        guard let login = user ?? others.map({ (name: $0.user, password: $0.password) }) else { return nil }
        let schemes: PasswordAuthenticator.Schemes = answersChallenges ? [.basic, .digest] : .preemptiveBasic
        do {
            return try PasswordAuthenticator(
                user: login.name, password: login.password, schemes: schemes, origins: others.map { [$0.url] })
        } catch {
            throw UsageError(": \(error.message.replacing("no authenticator was made: ", with: ""))")
        }
    }
}

extension FetchOptions {
    static func certificate(_ value: String) -> (path: String, password: String?) {
        guard access(value, F_OK) != 0, let colon = value.firstIndex(of: ":") else { return (value, nil) }
        return (String(value[..<colon]), String(value[value.index(after: colon)...]))
    }

    mutating func setCertificate(_ value: String) throws(UsageError) {
        let (path, password) = Self.certificate(value)
        let file = URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory)
        let isArchive = ["p12", "pfx"].contains(file.pathExtension.lowercased())
        connection.clientCertificate =
            isArchive
            ? ConnectionOptions.ClientCertificate(archive: file, password: password)
            : ConnectionOptions.ClientCertificate(certificateFile: file, privateKeyFile: file, password: password)
    }

    mutating func trustCertificates(of environment: [String: String]) throws(UsageError) {
        for name in ["CURL_CA_BUNDLE", "SSL_CERT_FILE"] {
            guard let path = environment[name], !path.isEmpty else { continue }
            do {
                connection.trust = .certificates(in: URL(filePath: try OptionValues.readableFile(path)))
                environmentTrust = connection.trust
                return
            } catch { throw UsageError("the environment variable \(name): \(error.message)") }
        }
    }
}
