// Options about requests and credentials.
import Convoy
import Foundation

extension Option {
    static let requestOptions: [Option] = [
        Option(
            "request", short: "X", value: .text("METHOD"), .requests, for: [.fetch, .queue(.add), .cache(.why)],
            summary: "the method, such as PUT",
            detail: "the method, such as PUT (default: GET, or POST with a body)"
        ) { $0.fetch.sending.method = try SendingOptions.method($1) },
        Option(
            "data", short: "d", value: .text("TEXT"), .requests, for: [.fetch, .queue(.add)],
            summary: "send fields of a form",
            detail: "send TEXT, or with @FILE what is in FILE without its line ends, as fields of a form; several are "
                + "joined by &",
            aliases: ["data-ascii"], isRepeatable: true, mayBeEmpty: true
        ) { try $0.fetch.sending.addData($1, keepsLines: false) },
        Option(
            "data-raw", value: .text("TEXT"), .requests, for: [.fetch, .queue(.add)],
            summary: "the same, where @ means nothing", isRepeatable: true,
            mayBeEmpty: true
        ) { try $0.fetch.sending.addData($1, mayNameFile: false) },
        Option(
            "data-binary", value: .text("TEXT"), .requests, for: [.fetch, .queue(.add)],
            summary: "the same, keeping the line ends of a file",
            isRepeatable: true, mayBeEmpty: true
        ) { try $0.fetch.sending.addData($1) },
        Option(
            "json-body", value: .text("JSON"), .requests, for: [.fetch, .queue(.add)], summary: "send JSON",
            detail: "send JSON, or with @FILE what is in FILE, and ask for JSON", aliases: ["json-data"]
        ) { try $0.fetch.sending.setJSON($1) },
        Option(
            "form", short: "F", value: .text("NAME=VALUE"), .requests, summary: "send a part of a form",
            detail: "send a part of a form: NAME=TEXT, NAME=@FILE, or NAME=<FILE for a file's content; ;type=TYPE and "
                + ";filename=NAME may follow",
            isRepeatable: true
        ) { try $0.fetch.sending.addFormPart($1) },
        Option(
            "form-string", value: .text("NAME=TEXT"), .requests, summary: "the same, where @ and < mean nothing",
            isRepeatable: true
        ) { try $0.fetch.sending.addFormPart($1, isLiteral: true) },
        Option(
            "header", short: "H", value: .text("'K: V'"), .requests,
            for: [.fetch, .queue(.add), .queue(.run), .cache(.why)], summary: "a header field for every request",
            detail: "send this header field with every request, or with @FILE each line of FILE; it stays behind "
                + "when a redirect leads to another origin",
            isRepeatable: true
        ) { try $0.fetch.sending.addHeaderField($1) },
        Option(
            "user-agent", short: "A", value: .text("NAME"), .requests, for: [.fetch, .queue(.add)],
            summary: "what this program calls itself"
        ) { try $0.fetch.sending.setField("User-Agent", $1) },
        Option(
            "referer", short: "e", value: .text("URL"), .requests, for: [.fetch, .queue(.add)],
            summary: "the page that the URL was found on"
        ) { try $0.fetch.sending.setField("Referer", $1) },
        Option(
            "head", short: "I", .requests, for: [.fetch, .cache(.why)],
            summary: "ask for the header fields only, and print them"
        ) {
            $0.fetch.sending.isHead = true
            $0.fetch.destination = .head
        },
        Option(
            "compressed", .requests, summary: "ask for compressed bodies, store them decompressed",
            detail: "ask for compressed bodies and store them decompressed; such a file cannot be resumed"
        ) { $0.fetch.isCompressed = true },
    ]

    static let credentialOptions: [Option] = [
        Option(
            "user", short: "u", value: .text("NAME:PASSWORD"), .credentials, for: [.fetch, .queue(.run)],
            summary: "user name and password",
            detail: "user name and password, sent with every request (Basic); without :PASSWORD it is asked for at the "
                + "terminal; - in place of both reads them from standard input, where other users do not see them"
        ) { try $0.fetch.credentials.setUser($1) },
        Option(
            "anyauth", .credentials, for: [.fetch, .queue(.run)], summary: "send the password as the server asks",
            detail: "send the password only where the server asks for it, by Digest where it offers that",
            aliases: ["digest"]
        ) { $0.fetch.credentials.answersChallenges = true },
        Option("basic", .credentials, summary: "send the password at once, as is done anyway") {
            $0.fetch.credentials.answersChallenges = false
        },
        Option(
            "netrc", short: "n", .credentials, summary: "take passwords from ~/.netrc", aliases: ["netrc-optional"]
        ) { $0.fetch.credentials.netrc = $0.fetch.credentials.netrc ?? .home },
        Option(
            "netrc-file", value: .file("FILE"), .credentials, summary: "take passwords from a file like it"
        ) { $0.fetch.credentials.netrc = .file(try OptionValues.readableFile($1)) },
        Option(
            "cookie", short: "b", value: .text("DATA|FILE"), .credentials, for: [.fetch, .queue(.run)],
            summary: "send cookies",
            detail: "send the cookies NAME=VALUE, or those of FILE, as curl and browsers' add-ons write it; '' is "
                + "none, and those of answers are sent back",
            isRepeatable: true, mayBeEmpty: true
        ) { try $0.fetch.credentials.addCookies($1) },
        Option(
            "cookie-jar", short: "c", value: .file("FILE"), .credentials,
            summary: "keep the cookies of answers in a file",
            detail: "send back the cookies of answers, and write all to FILE at the end"
        ) {
            guard !$1.contains("://") else {
                throw UsageError("takes a file for cookies; downloads are continued without being asked: leave -c out")
            }
            $0.fetch.credentials.cookieJar = $1
        },
    ]
}
