// Options that make a curl command line work here.
import Convoy
import Foundation

extension FetchOptions {
    static let curlOptions: [Option] = printingOptions + namingOptions + sendingOptions + followingOptions

    /// Options that print the answer if no file is named.
    private static let printingOptions: [Option] = [
        Option(
            "silent", short: "s", .output, summary: "print bodies, and errors",
            detail: "print bodies, and errors; no figures", aliases: ["no-progress-meter"]
        ) { options, _ in (options.isQuiet, options.printsAnswers) = (true, true) },
        Option("no-buffer", .output, summary: "print bytes as they arrive, as without it") { options, _ in
            options.printsAnswers = true
        },
        Option("show-error", short: "S", .output, summary: "tell errors, as is always done") { options, _ in
            options.printsAnswers = true
        },
        Option(
            "fail", short: "f", .output, summary: "fail on 400 and above, as is always done"
        ) { options, _ in options.printsAnswers = true },
        Option(
            "fail-with-body", .output, summary: "keep the body of a refusal",
            detail:
                "keep the body of an answer of 400 or more, its first 64 KiB, where that of a success would be; it is "
                + "a failure all the same"
        ) { options, _ in (options.keepsRefusals, options.printsAnswers) = (true, true) },
        Option(
            "location", short: "L", .connections, summary: "follow redirects, as is always done"
        ) { options, _ in options.printsAnswers = true },
        Option(
            "include", .output, summary: "print header fields before the body",
            detail: "print the header fields of every answer before the body, on standard output"
        ) { options, _ in (options.includesHeads, options.printsAnswers) = (true, true) },
        Option(
            "dump-header", short: "D", value: .file("FILE"), .output, summary: "write header fields to a file",
            detail: "write the header fields of every answer to FILE; - is standard output"
        ) { options, value in (options.headFile, options.printsAnswers) = (value, true) },
        Option("progress-bar", short: "#", .output, summary: "show bars, as is always done on a terminal"),
        Option(
            "raw-output", .output, summary: "print control bytes on a terminal too",
            detail: "print bodies on a terminal as they are; else no byte of them steers it"
        ) { options, _ in options.isRawOutput = true },
    ]

    private static let namingOptions: [Option] = [
        Option(
            "remote-name", short: "O", .files, summary: "name a file by its URL, as is done anyway",
            aliases: ["remote-name-all"], isRepeatable: true
        ) { options, _ in options.outputs.append(.named) },
        Option(
            "continue-at", short: "C", value: .text("-"), .files, summary: "continue a file, as is always done"
        ) { _, value throws(UsageError) in
            guard value == "-" else {
                throw UsageError(
                    "takes - only, which is always done; for the bytes from \(value) on write -r \(value)-")
            }
        },
        Option(
            "create-dirs", .files, summary: "make the directories of -o and -P", aliases: ["force-directories"]
        ) { options, _ in options.makesDirectories = true },
        Option(
            "remote-time", short: "R", .files, summary: "give files the time that the server names"
        ) { options, _ in options.takesServerTime = true },
        Option(
            "globoff", short: "g", .lists, summary: "take braces of a URL as they are",
            detail: "take URLs as they are; else {a,b}, [1-20], [001-100:5] and [a-z] stand for several"
        ) { options, _ in (options.expandsURLs, options.printsAnswers) = (false, true) },
    ]

    private static let sendingOptions: [Option] = [
        Option(
            "get", short: "G", .requests, summary: "send the data in the URL",
            detail: "put what --data and its like are given behind the URL, and send a GET"
        ) { options, _ in (options.sending.isQuery, options.printsAnswers) = (true, true) },
        Option(
            "data-urlencode", value: .text("TEXT"), .requests, summary: "the same as --data, encoded",
            detail: "send a field of a form, encoded: VALUE, =VALUE, NAME=VALUE, @FILE or NAME@FILE", isRepeatable: true
        ) { options, value throws(UsageError) in try options.sending.addEncoded(value) },
        Option(
            "upload-file", short: "T", value: .file("FILE"), .requests, summary: "send a file by PUT",
            detail: "send FILE by PUT, - for standard input; its name follows a URL that ends with /"
        ) { options, value throws(UsageError) in
            try options.sending.setUpload(value)
            options.printsAnswers = true
        },
        Option(
            "oauth2-bearer", value: .text("TOKEN"), .credentials, summary: "send this token",
            detail: "send TOKEN as Authorization: Bearer"
        ) { options, value throws(UsageError) in
            try options.sending.setField("Authorization", "Bearer \(value)")
            options.printsAnswers = true
        },
        Option(
            "spider", .requests, summary: "check whether the URL exists, and save nothing"
        ) { options, _ in (options.sending.isHead, options.destination) = (true, .nowhere) },
    ]

    private static let followingOptions: [Option] = [
        Option(
            "max-redirs", value: .text("N"), .connections, summary: "redirects that are followed",
            detail: "redirects that are followed (default 20; -1 is no limit)", aliases: ["max-redirect"]
        ) { options, value throws(UsageError) in
            options.maxRedirects = value == "-1" ? .max : try OptionValues.number(value, in: 0...1_000_000)
        },
        Option(
            "retry-delay", value: .text("SEC"), .limits, summary: "seconds before each retry",
            detail: "seconds before each retry (default: a random part of 0.5, 1, 2...)"
        ) { options, value throws(UsageError) in
            options.retryDelay = value == "0" ? nil : try OptionValues.seconds(value)
        },
        Option("retry-connrefused", .limits, summary: "retry refused connections, as is always done"),
        Option("parallel", short: "Z", .limits, summary: "send several at a time, as is always done"),
        Option(
            "noproxy", value: .text("HOSTS"), .connections, summary: "hosts without a proxy",
            detail: "hosts without a proxy, with commas between, as no_proxy has them; * for all"
        ) { ($0.noProxy, $0.printsAnswers) = ($1, true) },
        Option("http2", .connections, summary: "speak HTTP/2 over TLS, as is done anyway") { options, _ in
            (options.connection.httpVersion, options.printsAnswers) = (.automatic, true)
        },
    ]

    /// Accepted options without a help text, because the command already behaves as they ask.
    static let silentOptions: [Option] =
        [
            "no-keepalive", "remove-on-error", "retry-all-errors", "styled-output", "tcp-nodelay", "tlsv1", "tlsv1.2",
        ].map { silent($0) } + ["expect100-timeout", "keepalive-time"].map { silent($0, value: .text("SEC")) }
        + ["proto", "proto-redir"].map { name in
            silent(name, value: .text("LIST")) { options, value in
                // The command never follows a redirect from https to http.
                if name == "proto", !value.split(whereSeparator: { ",=+".contains($0) }).contains("http") {
                    options.needsHTTPS = true
                }
            }
        }

    private static func silent(
        _ name: String, value: Option.Value = .none,
        apply: @escaping @Sendable (inout FetchOptions, String) -> Void = { _, _ in }
    ) -> Option {
        Option(name, value: value, summary: "as is always done") { options, value in
            apply(&options, value)
            options.printsAnswers = true
        }
    }
}
