import Convoy
import Foundation

extension Option {
    static let connectionOptions: [Option] = [
        Option(
            "-x, --proxy URL", .connections, for: .sending, "the proxy, or direct for no proxy",
            detail: "the proxy, http://[USER:PASSWORD@]HOST[:PORT], https:// or socks5h:// (socks5, socks4a, socks4), "
                + "or direct for no proxy (default: http_proxy, https_proxy, all_proxy and no_proxy of the environment)",
            mayBeEmpty: true
        ) { $0.fetch.connection.proxy = try ProxyValue.read($1) },
        Option(
            "--cacert FILE", takes: .input, .connections, for: .sending, "trust these authorities only",
            detail: "trust the authorities of FILE (PEM) only (default: CURL_CA_BUNDLE, SSL_CERT_FILE, the system's)",
            aliases: ["ca-certificate"]
        ) { $0.fetch.connection.trust = .certificates(in: URL(filePath: try OptionValues.readableFile($1))) },
        .flag(
            "-k, --insecure", .connections, for: .sending, "trust every certificate",
            more: ": anyone on the network path can read and change all data"
        ) { $0.fetch.connection.trust = .unverified },
        Option(
            "-E, --cert FILE[:PASSWORD]", takes: .input, .connections, for: .sending, "the client certificate",
            more: ", as PEM, or with its key as .p12", aliases: ["certificate"],
            path: ValuePath { FetchOptions.certificate($0).path }
        ) { try $0.fetch.setCertificate($1) },
        Option(
            "--key FILE", takes: .input, .connections, for: .sending, "the private key of the client certificate",
            more: " (PEM; default: in the file of --cert)", aliases: ["private-key"]
        ) { $0.fetch.credentials.key = try OptionValues.readableFile($1) },
        Option(
            "--resolve HOST:PORT:ADDRESS", .connections, for: .sending, "the address of a host",
            more: " for this run, or several separated by commas", isRepeatable: true
        ) { $0.fetch.connection.hostOverrides.append(try ProxyValue.hostOverride($1)) },
        Option(
            "--tls-min VERSION", takes: .choice(["1.2", "1.3"]), .connections, for: .sending, "the minimum TLS version",
            more: ", 1.2 (the default) or 1.3"
        ) { $0.fetch.connection.minimumTLSVersion = $1 == "1.3" ? .tls13 : .tls12 },
        .flag("--http1", .connections, for: .sending, "use only HTTP/1.1", aliases: ["http1.1"]) {
            $0.fetch.connection.httpVersion = .http1
        },
        Option(
            "--transport NAME", takes: .choice(["curl", "urlsession"]), .connections, for: .sending,
            "the library that sends the requests",
            more: ": curl or urlsession (default: curl on Linux, urlsession elsewhere)"
        ) { $0.fetch.transport = try FetchOptions.transport(named: $1) },
    ]

    static let cacheOptions: [Option] = [
        Option(
            "--cache[=DIR]", takes: .directory, .cache, for: [.fetch, .run], "use and store cached responses",
            detail: "use stored responses where HTTP allows it, and store new ones, in DIR (default: "
                + "\(FetchOptions.cacheDefault)); see convoy help cache. Not with --segments and --mirror"
        ) { $0.fetch.cacheDirectory = try FetchOptions.cacheDirectory($1, ProcessInfo.processInfo.environment) },
        Option(
            "--cache-policy NAME", takes: .choice(FetchOptions.policies.map(\.key)), .cache,
            for: [.fetch, .run, .cache(.why)], "how stored responses are used",
            more: ": standard (the default), reload, revalidate, prefer-cache, only-cache or no-store; see convoy "
                + "help cache"
        ) { options, word in options.fetch.cachePolicy = FetchOptions.policies.first { $0.key == word }?.value },
        Option(
            "--cache-size BYTES", .cache, for: [.fetch, .run], "the maximum size of the cache",
            more: " in bytes, such as 500M (default: 1GiB)"
        ) { $0.fetch.cacheBytes = try OptionValues.bytes($1, "bytes") },
    ]
}
