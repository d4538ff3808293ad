import Convoy
import Foundation

extension Option {
    static let printingOptions: [Option] = [
        .flag(
            "-s, --silent", .output, "print only bodies and errors",
            detail: "print bodies and errors, without progress and summary", aliases: ["no-progress-meter"],
            printsAnswers: true
        ) { $0.fetch.isQuiet = true },
        .flag("--no-buffer", .output, "no effect, output is never buffered", printsAnswers: true),
        .flag("-S, --show-error", .output, "no effect, errors are always printed", printsAnswers: true),
        .flag("-f, --fail", .output, "no effect, 400 and above always fail", printsAnswers: true),
        .flag(
            "--fail-with-body", .output, "save the body of a failed response",
            detail: "save the first 64 KiB of a response of 400 or more where the body of a success would be saved; "
                + "the URL still fails",
            printsAnswers: true
        ) { $0.fetch.keepsRefusals = true },
        .flag("-L, --location", .connections, "no effect, redirects are always followed", printsAnswers: true),
        .flag(
            "--include", .output, "print header fields before the body",
            detail: "print the header fields of every response before the body, on standard output", printsAnswers: true
        ) { $0.fetch.includesHeads = true },
        Option(
            "-D, --dump-header FILE", takes: .output, .output, "write header fields to a file",
            detail: "write the header fields of every response to FILE; - is standard output", printsAnswers: true
        ) { $0.fetch.headFile = $1 },
        .flag("-#, --progress-bar", .output, "no effect, terminals always show bars"),
        .flag(
            "--raw-output", .output, "print control bytes on a terminal too",
            detail: "print bodies on a terminal unchanged; by default control bytes are escaped"
        ) { $0.fetch.isRawOutput = true },
    ]

    static let namingOptions: [Option] = [
        .flag(
            "-O, --remote-name", .files, "name a file by its URL, the default", aliases: ["remote-name-all"],
            isRepeatable: true
        ) { $0.fetch.outputs.append(.named) },
        Option("-C, --continue-at -", .files, "no effect, files are always continued") {
            guard $1 == "-" else {
                throw UsageError(
                    "takes only -, which has no effect; for the bytes from \($1) on write -r \($1)-")
            }
        },
        .flag("--create-dirs", .files, "create the directories of -o and -P", aliases: ["force-directories"]) {
            $0.fetch.makesDirectories = true
        },
        .flag("-R, --remote-time", .files, "give files the modification time of the server") {
            $0.fetch.takesServerTime = true
        },
        .flag(
            "-g, --globoff", .lists, "do not expand patterns in URLs",
            detail: "do not expand {a,b}, [1-20], [001-100:5] and [a-z] in URLs", printsAnswers: true
        ) { $0.fetch.expandsURLs = false },
    ]

    static let sendingOptions: [Option] = [
        .flag(
            "-G, --get", .requests, "send the data in the URL",
            detail: "append the data of --data and similar options to the URL, and send a GET", printsAnswers: true
        ) { $0.fetch.sending.isQuery = true },
        Option(
            "--data-urlencode TEXT", takes: .textOrFile, .requests, "the same as --data, encoded",
            detail: "send a field of a form, encoded: VALUE, =VALUE, NAME=VALUE, @FILE or NAME@FILE",
            isRepeatable: true, path: ValuePath { SendingOptions.encodedParts($0).file }
        ) { try $0.fetch.sending.addEncoded($1) },
        Option(
            "-T, --upload-file FILE", takes: .input, .requests, "send a file by PUT",
            detail: "send FILE by PUT, - for standard input; its name follows a URL that ends with /",
            printsAnswers: true
        ) { try $0.fetch.sending.setUpload($1) },
        Option(
            "--oauth2-bearer TOKEN", .credentials, "send a bearer token", detail: "send TOKEN as Authorization: Bearer",
            printsAnswers: true
        ) { try $0.fetch.sending.setField("Authorization", "Bearer \($1)") },
        .flag("--spider", .requests, "check whether the URL exists, and save nothing") {
            ($0.fetch.sending.isHead, $0.fetch.destination) = (true, .nowhere)
        },
    ]

    static let followingOptions: [Option] = [
        Option(
            "--max-redirs N", .connections, "the maximum number of redirects", more: " (default 20; -1 is no limit)",
            aliases: ["max-redirect"]
        ) { $0.fetch.maxRedirects = $1 == "-1" ? .max : try OptionValues.number($1, in: 0...1_000_000) },
        Option(
            "--retry-delay SEC", .limits, "seconds before each retry", more: " (default: a random part of 0.5, 1, 2...)"
        ) { $0.fetch.retryDelay = $1 == "0" ? nil : try OptionValues.seconds($1) },
        .flag("--retry-connrefused", .limits, "no effect, refused connections are retried"),
        .flag("-Z, --parallel", .limits, "no effect, transfers always run in parallel"),
        Option(
            "--noproxy HOSTS", .connections, "hosts without a proxy",
            more: ", separated by commas, in the form of no_proxy; * for all", printsAnswers: true
        ) { $0.fetch.noProxy = $1 },
        .flag("--http2", .connections, "use HTTP/2 over TLS, the default", printsAnswers: true) {
            $0.fetch.connection.httpVersion = .automatic
        },
    ]

    // Most have no effect, because the command always behaves as curl does with them.
    static let hiddenOptions: [Option] =
        [
            "no-keepalive", "remove-on-error", "retry-all-errors", "styled-output", "tcp-nodelay", "tlsv1", "tlsv1.2",
        ].map { hidden($0, takes: .none) }
        + ["expect100-timeout SEC", "keepalive-time SEC", "proto-redir LIST"].map { hidden($0) }
        + [
            hidden("proto LIST") {
                // A redirect from https to http is never followed, so only the given URLs are checked.
                if !$1.split(whereSeparator: { ",=+".contains($0) }).contains("http") { $0.fetch.needsHTTPS = true }
            }
        ]

    private static func hidden(_ usage: String, takes: Value = .text, store: @escaping Store = { _, _ in }) -> Option {
        Option(
            "--\(usage)", takes: takes, .general, "no effect, always on", printsAnswers: true, isHidden: true,
            store: store)
    }
}
