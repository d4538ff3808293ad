import Convoy
import ConvoyHTTPFile
import Foundation

extension Option {
    static let requestOptions: [Option] = [
        Option(
            "-X, --request METHOD", .requests, for: [.fetch, .queue(.add), .cache(.why)], "the method, such as PUT",
            more: " (default: GET, or POST with a body)"
        ) { $0.fetch.sending.method = try SendingOptions.method($1) },
        Option(
            "-d, --data TEXT", takes: .textOrFile, .requests, for: [.fetch, .queue(.add)], "send fields of a form",
            detail: "send TEXT as fields of a form, or with @FILE the content of FILE without its line ends; several "
                + "are joined by &",
            aliases: ["data-ascii"], isRepeatable: true, mayBeEmpty: true, path: .afterAt
        ) { try $0.fetch.sending.addData($1, keepsLines: false) },
        Option(
            "--data-raw TEXT", .requests, for: [.fetch, .queue(.add)], "the same, but @ has no meaning",
            isRepeatable: true, mayBeEmpty: true
        ) { try $0.fetch.sending.addData($1, mayNameFile: false) },
        Option(
            "--data-binary TEXT", takes: .textOrFile, .requests, for: [.fetch, .queue(.add)],
            "the same, but line ends of a file are kept", isRepeatable: true, mayBeEmpty: true, path: .afterAt
        ) { try $0.fetch.sending.addData($1) },
        Option(
            "--json-body JSON", takes: .textOrFile, .requests, for: [.fetch, .queue(.add)], "send JSON",
            more: ", or with @FILE the content of FILE, and ask for JSON", aliases: ["json-data"], path: .afterAt
        ) { try $0.fetch.sending.setJSON($1) },
        Option(
            "-F, --form NAME=VALUE", takes: .textOrFile, .requests, "send a part of a form",
            more: ": NAME=TEXT, NAME=@FILE, or NAME=<FILE for a file's content; ;type=TYPE and ;filename=NAME may "
                + "follow",
            isRepeatable: true, path: ValuePath { FormPart($0)?.path }
        ) { try $0.fetch.sending.addFormPart($1) },
        Option("--form-string NAME=TEXT", .requests, "the same, but @ and < have no meaning", isRepeatable: true) {
            try $0.fetch.sending.addFormPart($1, isLiteral: true)
        },
        Option(
            "-H, --header 'K: V'", takes: .textOrFile, .requests,
            for: [.fetch, .queue(.add), .queue(.run), .cache(.why)],
            "a header field for every request",
            detail: "send this header field with every request, or with @FILE each line of FILE; it replaces the field "
                + "of another option, 'K:' omits the field, and 'K;' sends it without a value. It is not sent to another "
                + "origin after a redirect",
            isRepeatable: true, path: .afterAt
        ) { try $0.fetch.sending.addHeaderField($1) },
        Option(
            "-A, --user-agent NAME", .requests, for: [.fetch, .queue(.add)], "the User-Agent field", mayBeEmpty: true
        ) { try $0.fetch.sending.setField("User-Agent", $1) },
        Option(
            "-e, --referer URL", .requests, for: [.fetch, .queue(.add)], "the Referer field, the page with the link",
            mayBeEmpty: true
        ) { try $0.fetch.sending.setField("Referer", $1) },
        .flag("-I, --head", .requests, for: [.fetch, .cache(.why)], "request only the header fields, and print them") {
            $0.fetch.sending.isHead = true
            $0.fetch.destination = .head
        },
        .flag(
            "--compressed", .requests, "ask for compressed bodies, store them decompressed",
            detail: "ask for compressed bodies and store them decompressed; such a file cannot be resumed"
        ) { $0.fetch.isCompressed = true },
    ]

    static let credentialOptions: [Option] = [
        Option(
            "-u, --user NAME:PASSWORD", .credentials, for: [.fetch, .queue(.run)], "user name and password",
            more: ", sent with every request (Basic); without :PASSWORD convoy asks at the terminal; - reads both "
                + "from standard input, which hides them from other users"
        ) { try $0.fetch.credentials.setUser($1) },
        .flag(
            "--anyauth", .credentials, for: [.fetch, .queue(.run)], "send the password as the server asks",
            detail: "send the password only if the server asks for it, with Digest if the server offers it",
            aliases: ["digest"]
        ) { $0.fetch.credentials.answersChallenges = true },
        .flag("--basic", .credentials, "send the password at once, the default") {
            $0.fetch.credentials.answersChallenges = false
        },
        .flag("-n, --netrc", .credentials, "read passwords from ~/.netrc", aliases: ["netrc-optional"]) {
            $0.fetch.credentials.netrc = $0.fetch.credentials.netrc ?? .home
        },
        Option("--netrc-file FILE", takes: .input, .credentials, "read passwords from a file like .netrc") {
            $0.fetch.credentials.netrc = .file(try OptionValues.readableFile($1))
        },
        Option(
            "-b, --cookie DATA|FILE", takes: .textOrFile, .credentials, for: [.fetch, .queue(.run)], "send cookies",
            detail: "send the cookies NAME=VALUE, or those of FILE in the format of curl and browser add-ons; '' "
                + "sends none at first. With FILE or '', cookies of responses are sent back",
            isRepeatable: true, mayBeEmpty: true, path: ValuePath { $0.contains("=") || $0.isEmpty ? nil : $0 }
        ) { try $0.fetch.credentials.addCookies($1) },
        Option(
            "-c, --cookie-jar FILE", takes: .output, .credentials, "write the cookies of responses to a file",
            detail: "send back the cookies of responses, and write all to FILE at the end"
        ) {
            guard !$1.contains("://") else {
                throw UsageError("takes a file for cookies; downloads are always continued: remove -c")
            }
            $0.fetch.credentials.cookieJar = $1
        },
    ]
}
