// Options that make a curl command line work here.
import Convoy
import Foundation

extension Option {
    static let printingOptions: [Option] = [
        Option(
            "silent", short: "s", .output, summary: "print only bodies and errors",
            detail: "print bodies and errors, without progress and summary", aliases: ["no-progress-meter"],
            printsAnswers: true
        ) { $0.fetch.isQuiet = true },
        Option("no-buffer", .output, summary: "no effect, output is never buffered", printsAnswers: true),
        Option("show-error", short: "S", .output, summary: "no effect, errors are always printed", printsAnswers: true),
        Option(
            "fail", short: "f", .output, summary: "no effect, 400 and above always fail", printsAnswers: true),
        Option(
            "fail-with-body", .output, summary: "save the body of a failed response",
            detail:
                "save the first 64 KiB of a response of 400 or more where the body of a success would be saved; the URL "
                + "still fails", printsAnswers: true
        ) { $0.fetch.keepsRefusals = true },
        Option(
            "location", short: "L", .connections, summary: "no effect, redirects are always followed",
            printsAnswers: true),
        Option(
            "include", .output, summary: "print header fields before the body",
            detail: "print the header fields of every response before the body, on standard output", printsAnswers: true
        ) { $0.fetch.includesHeads = true },
        Option(
            "dump-header", short: "D", value: .file("FILE"), .output, summary: "write header fields to a file",
            detail: "write the header fields of every response to FILE; - is standard output", printsAnswers: true
        ) { $0.fetch.headFile = $1 },
        Option("progress-bar", short: "#", .output, summary: "no effect, terminals always show bars"),
        Option(
            "raw-output", .output, summary: "print control bytes on a terminal too",
            detail: "print bodies on a terminal unchanged; by default control bytes are escaped"
        ) { $0.fetch.isRawOutput = true },
    ]

    static let namingOptions: [Option] = [
        Option(
            "remote-name", short: "O", .files, summary: "name a file by its URL, the default",
            aliases: ["remote-name-all"], isRepeatable: true
        ) { $0.fetch.outputs.append(.named) },
        Option(
            "continue-at", short: "C", value: .text("-"), .files, summary: "no effect, files are always continued"
        ) {
            guard $1 == "-" else {
                throw UsageError(
                    "takes only -, which has no effect; for the bytes from \($1) on write -r \($1)-")
            }
        },
        Option(
            "create-dirs", .files, summary: "create the directories of -o and -P", aliases: ["force-directories"]
        ) { $0.fetch.makesDirectories = true },
        Option(
            "remote-time", short: "R", .files, summary: "give files the modification time of the server"
        ) { $0.fetch.takesServerTime = true },
        Option(
            "globoff", short: "g", .lists, summary: "do not expand patterns in URLs",
            detail: "do not expand {a,b}, [1-20], [001-100:5] and [a-z] in URLs",
            printsAnswers: true
        ) { $0.fetch.expandsURLs = false },
    ]

    static let sendingOptions: [Option] = [
        Option(
            "get", short: "G", .requests, summary: "send the data in the URL",
            detail: "append the data of --data and similar options to the URL, and send a GET", printsAnswers: true
        ) { $0.fetch.sending.isQuery = true },
        Option(
            "data-urlencode", value: .text("TEXT"), .requests, summary: "the same as --data, encoded",
            detail: "send a field of a form, encoded: VALUE, =VALUE, NAME=VALUE, @FILE or NAME@FILE", isRepeatable: true
        ) { try $0.fetch.sending.addEncoded($1) },
        Option(
            "upload-file", short: "T", value: .file("FILE"), .requests, summary: "send a file by PUT",
            detail: "send FILE by PUT, - for standard input; its name follows a URL that ends with /",
            printsAnswers: true
        ) { try $0.fetch.sending.setUpload($1) },
        Option(
            "oauth2-bearer", value: .text("TOKEN"), .credentials, summary: "send a bearer token",
            detail: "send TOKEN as Authorization: Bearer", printsAnswers: true
        ) { try $0.fetch.sending.setField("Authorization", "Bearer \($1)") },
        Option(
            "spider", .requests, summary: "check whether the URL exists, and save nothing"
        ) { ($0.fetch.sending.isHead, $0.fetch.destination) = (true, .nowhere) },
    ]

    static let followingOptions: [Option] = [
        Option(
            "max-redirs", value: .text("N"), .connections, summary: "the maximum number of redirects",
            detail: "the maximum number of redirects (default 20; -1 is no limit)", aliases: ["max-redirect"]
        ) { $0.fetch.maxRedirects = $1 == "-1" ? .max : try OptionValues.number($1, in: 0...1_000_000) },
        Option(
            "retry-delay", value: .text("SEC"), .limits, summary: "seconds before each retry",
            detail: "seconds before each retry (default: a random part of 0.5, 1, 2...)"
        ) { $0.fetch.retryDelay = $1 == "0" ? nil : try OptionValues.seconds($1) },
        Option("retry-connrefused", .limits, summary: "no effect, refused connections are retried"),
        Option("parallel", short: "Z", .limits, summary: "no effect, transfers always run in parallel"),
        Option(
            "noproxy", value: .text("HOSTS"), .connections, summary: "hosts without a proxy",
            detail: "hosts without a proxy, separated by commas, in the form of no_proxy; * for all",
            printsAnswers: true
        ) { $0.fetch.noProxy = $1 },
        Option(
            "http2", .connections, summary: "use HTTP/2 over TLS, the default", printsAnswers: true
        ) { $0.fetch.connection.httpVersion = .automatic },
    ]

    /// Options that the help does not list.
    ///
    /// Most have no effect, because the command always behaves as curl does with them.
    static let hiddenOptions: [Option] =
        [
            "no-keepalive", "remove-on-error", "retry-all-errors", "styled-output", "tcp-nodelay", "tlsv1", "tlsv1.2",
        ].map { hidden($0, value: .none) }
        + ["expect100-timeout", "keepalive-time"].map { hidden($0, value: .text("SEC")) }
        + [
            hidden("proto", value: .text("LIST")) {
                // A redirect from https to http is never followed, so only the given URLs are checked.
                if !$1.split(whereSeparator: { ",=+".contains($0) }).contains("http") { $0.fetch.needsHTTPS = true }
            },
            hidden("proto-redir", value: .text("LIST")),
        ]

    private static func hidden(_ name: String, value: Value, store: @escaping Store = { _, _ in }) -> Option {
        Option(
            name, value: value, summary: "no effect, always on", printsAnswers: true, isHidden: true, store: store)
    }
}
