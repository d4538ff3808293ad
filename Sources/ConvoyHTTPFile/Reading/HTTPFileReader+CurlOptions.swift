// The options of curl, and the effect of each on a request.

extension HTTPFileReader {
    /// The effect of a curl option on a request.
    enum CurlOption {
        case method
        case field
        case data
        /// Data in which a leading `@` does not name a file.
        case rawData
        /// Data from the command or from a file, whose line ends are kept.
        case binaryData
        case json
        case form(isLiteral: Bool)
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
        /// No effect on the request; the option may have a value.
        case nothing(takesValue: Bool)
        /// An effect that a request of a file cannot express; the option is an error.
        case other(takesValue: Bool)
    }

    static let curlOptions: [String: CurlOption] = {
        let table: [(names: String, option: CurlOption)] = [
            ("-X --request", .method), ("-H --header", .field), ("--data-raw", .rawData),
            ("-d --data --data-ascii", .data), ("--data-binary", .binaryData), ("--json", .json),
            ("-F --form", .form(isLiteral: false)),
            ("--form-string", .form(isLiteral: true)),
            ("-I --head", .head), ("-G --get", .get), ("-u --user", .user), ("-b --cookie", .cookie),
            ("-A --user-agent", .agent), ("-e --referer", .referer), ("--url", .url), ("-o --output", .output),
            ("--data-urlencode", .urlEncoded), ("-T --upload-file", .upload), ("-r --range", .range),
            ("--oauth2-bearer", .bearer), ("--digest", .digest), ("-m --max-time", .timeout),
            ("-w --write-out", .nothing(takesValue: true)),
            (
                "-L --location --compressed -s --silent -S --show-error -v --verbose -i --include -f --fail --http1.1 "
                    + "--http2 -g --globoff -N --no-buffer -# --progress-bar --fail-with-body --no-progress-meter "
                    + "--basic", .nothing(takesValue: false)
            ),
            (
                "-k --insecure -n --netrc -O --remote-name -J --remote-header-name -4 -6 --ntlm --negotiate --anyauth "
                    + "--http1.0 --http3 --location-trusted --tlsv1.2 --tlsv1.3 -j --junk-session-cookies -R "
                    + "--remote-time --create-dirs", .other(takesValue: false)
            ),
            (
                "-x --proxy -E --cert --key --cacert --resolve --connect-to --max-redirs -c --cookie-jar -D "
                    + "--dump-header --limit-rate --retry --retry-delay --retry-max-time --connect-timeout -z "
                    + "--time-cond --interface --ciphers -K --config --aws-sigv4 -U --proxy-user --noproxy "
                    + "--unix-socket -y -Y --max-filesize -C --continue-at", .other(takesValue: true)
            ),
        ]
        return Dictionary(
            table.flatMap { entry in entry.names.split(separator: " ").map { (String($0), entry.option) } }
        ) { first, _ in first }
    }()
}
