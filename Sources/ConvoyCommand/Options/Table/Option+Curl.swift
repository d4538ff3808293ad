// Options that make a curl command line work here.
import Convoy
import Foundation

extension Option {
    static let printingOptions: [Option] = [
        Option(
            "silent", short: "s", .output, summary: "print bodies, and errors",
            detail: "print bodies, and errors; no figures", aliases: ["no-progress-meter"], printsAnswers: true
        ) { $0.fetch.isQuiet = true },
        Option("no-buffer", .output, summary: "print bytes as they arrive, as without it", printsAnswers: true),
        Option("show-error", short: "S", .output, summary: "tell errors, as is always done", printsAnswers: true),
        Option(
            "fail", short: "f", .output, summary: "fail on 400 and above, as is always done", printsAnswers: true),
        Option(
            "fail-with-body", .output, summary: "keep the body of a refusal",
            detail:
                "keep the body of an answer of 400 or more, its first 64 KiB, where that of a success would be; it is "
                + "a failure all the same", printsAnswers: true
        ) { $0.fetch.keepsRefusals = true },
        Option(
            "location", short: "L", .connections, summary: "follow redirects, as is always done", printsAnswers: true),
        Option(
            "include", .output, summary: "print header fields before the body",
            detail: "print the header fields of every answer before the body, on standard output", printsAnswers: true
        ) { $0.fetch.includesHeads = true },
        Option(
            "dump-header", short: "D", value: .file("FILE"), .output, summary: "write header fields to a file",
            detail: "write the header fields of every answer to FILE; - is standard output", printsAnswers: true
        ) { $0.fetch.headFile = $1 },
        Option("progress-bar", short: "#", .output, summary: "show bars, as is always done on a terminal"),
        Option(
            "raw-output", .output, summary: "print control bytes on a terminal too",
            detail: "print bodies on a terminal as they are; else no byte of them steers it"
        ) { $0.fetch.isRawOutput = true },
    ]

    static let namingOptions: [Option] = [
        Option(
            "remote-name", short: "O", .files, summary: "name a file by its URL, as is done anyway",
            aliases: ["remote-name-all"], isRepeatable: true
        ) { $0.fetch.outputs.append(.named) },
        Option(
            "continue-at", short: "C", value: .text("-"), .files, summary: "continue a file, as is always done"
        ) {
            guard $1 == "-" else {
                throw UsageError(
                    "takes - only, which is always done; for the bytes from \($1) on write -r \($1)-")
            }
        },
        Option(
            "create-dirs", .files, summary: "make the directories of -o and -P", aliases: ["force-directories"]
        ) { $0.fetch.makesDirectories = true },
        Option(
            "remote-time", short: "R", .files, summary: "give files the time that the server names"
        ) { $0.fetch.takesServerTime = true },
        Option(
            "globoff", short: "g", .lists, summary: "take braces of a URL as they are",
            detail: "take URLs as they are; else {a,b}, [1-20], [001-100:5] and [a-z] stand for several",
            printsAnswers: true
        ) { $0.fetch.expandsURLs = false },
    ]

    static let sendingOptions: [Option] = [
        Option(
            "get", short: "G", .requests, summary: "send the data in the URL",
            detail: "put what --data and its like are given behind the URL, and send a GET", printsAnswers: true
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
            "oauth2-bearer", value: .text("TOKEN"), .credentials, summary: "send this token",
            detail: "send TOKEN as Authorization: Bearer", printsAnswers: true
        ) { try $0.fetch.sending.setField("Authorization", "Bearer \($1)") },
        Option(
            "spider", .requests, summary: "check whether the URL exists, and save nothing"
        ) { ($0.fetch.sending.isHead, $0.fetch.destination) = (true, .nowhere) },
    ]

    static let followingOptions: [Option] = [
        Option(
            "max-redirs", value: .text("N"), .connections, summary: "redirects that are followed",
            detail: "redirects that are followed (default 20; -1 is no limit)", aliases: ["max-redirect"]
        ) { $0.fetch.maxRedirects = $1 == "-1" ? .max : try OptionValues.number($1, in: 0...1_000_000) },
        Option(
            "retry-delay", value: .text("SEC"), .limits, summary: "seconds before each retry",
            detail: "seconds before each retry (default: a random part of 0.5, 1, 2...)"
        ) { $0.fetch.retryDelay = $1 == "0" ? nil : try OptionValues.seconds($1) },
        Option("retry-connrefused", .limits, summary: "retry refused connections, as is always done"),
        Option("parallel", short: "Z", .limits, summary: "send several at a time, as is always done"),
        Option(
            "noproxy", value: .text("HOSTS"), .connections, summary: "hosts without a proxy",
            detail: "hosts without a proxy, with commas between, as no_proxy has them; * for all", printsAnswers: true
        ) { $0.fetch.noProxy = $1 },
        Option(
            "http2", .connections, summary: "speak HTTP/2 over TLS, as is done anyway", printsAnswers: true
        ) { $0.fetch.connection.httpVersion = .automatic },
    ]

    /// Options that ask for what the command does anyway.
    static let hiddenOptions: [Option] =
        [
            "no-keepalive", "remove-on-error", "retry-all-errors", "styled-output", "tcp-nodelay", "tlsv1", "tlsv1.2",
        ].map { hidden($0, value: .none) }
        + ["expect100-timeout", "keepalive-time"].map { hidden($0, value: .text("SEC")) }
        + [
            hidden("proto", value: .text("LIST")) {
                // The command never follows a redirect from https to http.
                if !$1.split(whereSeparator: { ",=+".contains($0) }).contains("http") { $0.fetch.needsHTTPS = true }
            },
            hidden("proto-redir", value: .text("LIST")),
        ]

    private static func hidden(_ name: String, value: Value, store: @escaping Store = { _, _ in }) -> Option {
        Option(
            name, value: value, summary: "as is always done", printsAnswers: true, isHidden: true, store: store)
    }
}
