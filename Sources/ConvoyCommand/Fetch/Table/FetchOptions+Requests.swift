// Options about requests, connections and output.
import Convoy
import Foundation

extension FetchOptions {
    static let requestOptions: [Option] = [
        Option(
            "request", short: "X", value: .text("METHOD"), .requests, summary: "the method, such as PUT",
            detail: "the method, such as PUT (default: GET, or POST with a body)"
        ) { options, value throws(UsageError) in options.sending.method = try SendingOptions.method(value) },
        Option(
            "data", short: "d", value: .text("TEXT"), .requests, summary: "send fields of a form",
            detail: "send TEXT, or with @FILE what is in FILE without its line ends, as fields of a form; several are "
                + "joined by &",
            aliases: ["data-ascii"], isRepeatable: true, mayBeEmpty: true
        ) { options, value throws(UsageError) in try options.sending.addData(value, keepsLines: false) },
        Option(
            "data-raw", value: .text("TEXT"), .requests, summary: "the same, where @ means nothing", isRepeatable: true,
            mayBeEmpty: true
        ) { options, value throws(UsageError) in try options.sending.addData(value, mayNameFile: false) },
        Option(
            "data-binary", value: .text("TEXT"), .requests, summary: "the same, keeping the line ends of a file",
            isRepeatable: true, mayBeEmpty: true
        ) { options, value throws(UsageError) in try options.sending.addData(value) },
        Option(
            "json-body", value: .text("JSON"), .requests, summary: "send JSON",
            detail: "send JSON, or with @FILE what is in FILE, and ask for JSON", aliases: ["json-data"]
        ) { options, value throws(UsageError) in try options.sending.setJSON(value) },
        Option(
            "form", short: "F", value: .text("NAME=VALUE"), .requests, summary: "send a part of a form",
            detail: "send a part of a form: NAME=TEXT, NAME=@FILE, or NAME=<FILE for a file's content; ;type=TYPE and "
                + ";filename=NAME may follow",
            isRepeatable: true
        ) { options, value throws(UsageError) in try options.sending.addFormPart(value) },
        Option(
            "form-string", value: .text("NAME=TEXT"), .requests, summary: "the same, where @ and < mean nothing",
            isRepeatable: true
        ) { options, value throws(UsageError) in try options.sending.addFormPart(value, isLiteral: true) },
        Option(
            "header", short: "H", value: .text("'K: V'"), .requests, summary: "a header field for every request",
            detail: "send this header field with every request, or with @FILE each line of FILE; it stays behind "
                + "when a redirect leads to another origin",
            isRepeatable: true
        ) { options, value throws(UsageError) in try options.sending.addHeaderField(value) },
        Option(
            "user-agent", short: "A", value: .text("NAME"), .requests, summary: "what this program calls itself"
        ) { options, value throws(UsageError) in try options.sending.setField("User-Agent", value) },
        Option(
            "referer", short: "e", value: .text("URL"), .requests, summary: "the page that the URL was found on"
        ) { options, value throws(UsageError) in try options.sending.setField("Referer", value) },
        Option(
            "head", short: "I", .requests, summary: "ask for the header fields only, and print them"
        ) { options, _ in
            options.sending.isHead = true
            options.destination = .head
        },
        Option(
            "compressed", .requests, summary: "ask for compressed bodies, store them decompressed",
            detail: "ask for compressed bodies and store them decompressed; such a file cannot be resumed"
        ) { options, _ in options.isCompressed = true },
    ]

    static let credentialOptions: [Option] = [
        Option(
            "user", short: "u", value: .text("NAME:PASSWORD"), .credentials, summary: "user name and password",
            detail: "user name and password, sent with every request (Basic); without :PASSWORD it is asked for at the "
                + "terminal; - in place of both reads them from standard input, where other users do not see them"
        ) { options, value throws(UsageError) in try options.credentials.setUser(value) },
        Option(
            "anyauth", .credentials, summary: "send the password as the server asks",
            detail: "send the password only where the server asks for it, by Digest where it offers that",
            aliases: ["digest"]
        ) { options, _ in options.credentials.answersChallenges = true },
        Option("basic", .credentials, summary: "send the password at once, as is done anyway") { options, _ in
            options.credentials.answersChallenges = false
        },
        Option(
            "netrc", short: "n", .credentials, summary: "take passwords from ~/.netrc", aliases: ["netrc-optional"]
        ) { options, _ in options.credentials.netrc = options.credentials.netrc ?? .home },
        Option(
            "netrc-file", value: .file("FILE"), .credentials, summary: "take passwords from a file like it"
        ) { options, value throws(UsageError) in
            options.credentials.netrc = .file(try OptionValues.readableFile(value))
        },
        Option(
            "cookie", short: "b", value: .text("DATA|FILE"), .credentials, summary: "send cookies",
            detail: "send the cookies NAME=VALUE, or those of FILE, as curl and browsers' add-ons write it; '' is "
                + "none, and those of answers are sent back",
            isRepeatable: true, mayBeEmpty: true
        ) { options, value throws(UsageError) in try options.credentials.addCookies(value) },
        Option(
            "cookie-jar", short: "c", value: .file("FILE"), .credentials,
            summary: "keep the cookies of answers in a file",
            detail: "send back the cookies of answers, and write all to FILE at the end"
        ) { options, value throws(UsageError) in
            guard !value.contains("://") else {
                throw UsageError("takes a file for cookies; downloads are continued without being asked: leave -c out")
            }
            options.credentials.cookieJar = value
        },
    ]

    static let connectionOptions: [Option] = [
        Option(
            "proxy", short: "x", value: .text("URL"), .connections, summary: "the proxy, or direct for none",
            detail:
                "the proxy, http://[USER:PASSWORD@]HOST[:PORT], https:// or socks5h:// (socks5, socks4a, socks4), or "
                + "direct for none (default: what http_proxy, https_proxy, all_proxy and no_proxy say)",
            mayBeEmpty: true
        ) { options, value throws(UsageError) in options.connection.proxy = try ProxyValue.read(value) },
        Option(
            "cacert", value: .file("FILE"), .connections, summary: "trust these authorities only",
            detail: "trust the authorities of FILE (PEM) only (default: CURL_CA_BUNDLE, SSL_CERT_FILE, the system's)",
            aliases: ["ca-certificate"]
        ) { options, value throws(UsageError) in
            options.connection.trust = .certificates(in: URL(filePath: try OptionValues.readableFile(value)))
        },
        Option(
            "insecure", short: "k", .connections, summary: "trust every certificate",
            detail: "trust every certificate: anyone in between can read and change everything"
        ) { options, _ in options.connection.trust = .unverified },
        Option(
            "cert", short: "E", value: .file("FILE[:PASSWORD]"), .connections,
            summary: "the certificate of this client",
            detail: "the certificate of this client, PEM, or with its key as .p12", aliases: ["certificate"]
        ) { options, value throws(UsageError) in try options.setCertificate(value) },
        Option(
            "key", value: .file("FILE"), .connections, summary: "its private key",
            detail: "its private key (PEM; default: in the file of --cert)", aliases: ["private-key"]
        ) { options, value throws(UsageError) in options.credentials.key = try OptionValues.readableFile(value) },
        Option(
            "resolve", value: .text("HOST:PORT:ADDRESS"), .connections, summary: "the address of a host",
            detail: "the address of a host for this run, or several with commas between", isRepeatable: true
        ) { options, value throws(UsageError) in
            options.connection.hostOverrides.append(try ProxyValue.hostOverride(value))
        },
        Option(
            "tls-min", value: .choice("VERSION", among: ["1.2", "1.3"]), .connections,
            summary: "the oldest TLS that is spoken", detail: "the oldest TLS that is spoken, 1.2 (the default) or 1.3"
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: ["1.2", "1.3"])
            options.connection.minimumTLSVersion = word == "1.3" ? .tls13 : .tls12
        },
        Option("http1", .connections, summary: "speak HTTP/1.1 only", aliases: ["http1.1"]) { options, _ in
            options.connection.httpVersion = .http1
        },
        Option(
            "transport", value: .choice("NAME", among: ["curl", "urlsession"]), .connections,
            summary: "what sends the requests",
            detail: "curl or urlsession (default: curl on Linux, urlsession elsewhere)"
        ) { options, value throws(UsageError) in
            options.transport = try transport(named: OptionValues.choice(value, among: ["curl", "urlsession"]))
        },
    ]

    static let outputOptions: [Option] = [
        Option(
            "verbose", short: "v", .output, summary: "tell requests, answers and connections",
            detail: "tell requests, answers and connections on standard error, without passwords"
        ) { options, _ in options.isVerbose = true },
        Option(
            "write-out", short: "w", value: .text("FORMAT"), .output, summary: "print this after each URL",
            detail: "print FORMAT after each URL, with curl's variables, such as %{http_code} and %{time_total}"
        ) { options, value throws(UsageError) in options.writeOut = try WriteOut(value) },
        Option(
            "har", value: .file("FILE"), .output, summary: "write an archive of the requests",
            detail: "write all requests and the heads of their answers to FILE, as browsers do (HAR 1.2)"
        ) { $0.archive = $1 },
        Option(
            "report", value: .file("FILE"), .output, summary: "write a page that shows every request",
            detail: "write a page to FILE, for browsers: a waterfall and a table of all requests, without passwords"
        ) { $0.report = $1 },
        Option("quiet", .output, summary: "print errors only", aliases: ["no-verbose"]) { options, _ in
            options.isQuiet = true
        },
        Option(
            "json", .output, summary: "print one JSON object a line",
            detail: "print one JSON object a line on standard output; see convoy help json"
        ) { options, _ in options.isJSON = true },
    ]

    private static func transport(named name: String) throws(UsageError) -> TransportChoice {
        guard name == "curl" else { return .urlSession }
        #if os(Linux)
            return .custom(CurlTransport.shared)
        #else
            throw UsageError("takes urlsession here: the transport curl is available on Linux only")
        #endif
    }
}

extension Option {
    static let url = Option(
        "url", value: .text("URL"), .general, summary: "a URL, as one without an option", isRepeatable: true)
    static let config = Option(
        "config", short: "K", value: .file("FILE"), .general, summary: "read options from a file",
        detail: "read options from FILE, a line each: a name without dashes and its value (default: convoy/config in "
            + "$XDG_CONFIG_HOME or ~/.config)",
        isRepeatable: true)
    static let noConfig = Option("no-config", .general, summary: "do not read the file of your own")
}
