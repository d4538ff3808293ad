// The options of curl, and what each does to a request.

extension HTTPFileReader {
    /// What an option of curl does to a request.
    enum CurlOption {
        case method
        case field
        case data(isRaw: Bool)
        case json
        case form
        case head
        case get
        case user
        case cookie
        case agent
        case referer
        case url
        case output
        case urlEncoded
        case upload
        case range
        case bearer
        case digest
        case timeout
        /// Nothing here, with or without a value.
        case nothing(takesValue: Bool)
        /// Something that a request of a file cannot say.
        case other(takesValue: Bool)
    }

    static let curlOptions: [String: CurlOption] = [
        "-X": .method, "--request": .method, "-H": .field, "--header": .field, "-d": .data(isRaw: false),
        "--data": .data(isRaw: false), "--data-ascii": .data(isRaw: false), "--data-binary": .data(isRaw: false),
        "--data-raw": .data(isRaw: true), "--json": .json, "-F": .form, "--form": .form, "-I": .head, "--head": .head,
        "-G": .get, "--get": .get, "-u": .user, "--user": .user, "-b": .cookie, "--cookie": .cookie, "-A": .agent,
        "--user-agent": .agent, "-e": .referer, "--referer": .referer, "--url": .url, "-o": .output,
        "--output": .output,
        "--data-urlencode": .urlEncoded, "-T": .upload, "--upload-file": .upload, "-r": .range, "--range": .range,
        "--oauth2-bearer": .bearer, "--digest": .digest, "-m": .timeout, "--max-time": .timeout,
    ]
    .merging(table(["-w", "--write-out"], .nothing(takesValue: true))) { first, _ in first }
    .merging(
        table(
            [
                "-L", "--location", "--compressed", "-s", "--silent", "-S", "--show-error", "-v", "--verbose", "-i",
                "--include", "-f", "--fail", "--http1.1", "--http2", "-g", "--globoff", "-N", "--no-buffer", "-#",
                "--progress-bar", "--fail-with-body", "--no-progress-meter", "--basic",
            ], .nothing(takesValue: false))
    ) { first, _ in first }
    .merging(
        table(
            [
                "-k", "--insecure", "-n", "--netrc", "-O", "--remote-name", "-J", "--remote-header-name", "-4", "-6",
                "--ntlm", "--negotiate", "--anyauth", "--http1.0", "--http3", "--location-trusted", "--tlsv1.2",
                "--tlsv1.3", "-j", "--junk-session-cookies", "-R", "--remote-time", "--create-dirs",
            ], .other(takesValue: false))
    ) { first, _ in first }
    .merging(
        table(
            [
                "-x", "--proxy", "-E", "--cert", "--key", "--cacert", "--resolve", "--connect-to", "--max-redirs", "-c",
                "--cookie-jar", "-D", "--dump-header", "--limit-rate", "--retry", "--retry-delay", "--retry-max-time",
                "--connect-timeout", "-z", "--time-cond", "--interface", "--ciphers", "-K", "--config", "--aws-sigv4",
                "-U", "--proxy-user", "--noproxy", "--unix-socket", "-y", "-Y", "--max-filesize", "-C", "--continue-at",
            ], .other(takesValue: true))
    ) { first, _ in first }

    private static func table(_ names: [String], _ option: CurlOption) -> [String: CurlOption] {
        Dictionary(names.map { ($0, option) }) { first, _ in first }
    }
}
