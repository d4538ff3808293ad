extension FetchOptions {
    static let habits: [String: String] = {
        var habits = [
            "-sN": "aria2's -s 8 is --segments 8",
            "-q": "wget's -q is --quiet, and curl's -q is --no-config",
            "-t": "wget's and aria2's -t 3 is --retries 2, which does not count the first attempt",
            "-N": "wget's -N is --existing updateIfChanged, and curl's is --no-buffer",
            "-nc": "wget's -nc is --existing skip",
            "-l": "aria2's -l FILE has no equivalent; --json and -v show the events of a run",
            "-U": "wget's -U NAME is -A NAME; a proxy's user is part of its URL: -x http://USER:PASSWORD@HOST:PORT",
            "--junk-session-cookies": "session cookies are kept only for the run: remove it",
            "-a": "convoy does not append to files; wget's -a FILE is 2>> FILE",
            "--post301": "write -X POST, which redirects keep",
            "--post302": "write -X POST, which redirects keep",
            "--location-trusted": "secrets are never sent to another server: write the final URL itself",
            "--retry-max-time": "write --deadline SEC, which counts every attempt and wait",
            "--aws-sigv4": "convoy does not sign requests: use curl, or send a token with -H",
            "--ntlm": "NTLM is not supported: use curl",
            "--negotiate": "Kerberos is not supported: use curl",
            "--unix-socket": "Unix sockets are not supported: use curl",
            "--http3": "HTTP/3 is not supported; HTTP/2 is used by default",
            "--trace": "write -v, or --har FILE",
            "--trace-ascii": "write -v, or --har FILE",
            "--stderr": "errors are printed on standard error: write 2> FILE",
            "--path-as-is": "the dots in a path are resolved: write the path itself",
            "--interface": "the system chooses the interface: remove it",
            "--url-query": "write -G -d NAME=VALUE, or the query at the end of the URL",
            "--no-location": "redirects are always followed: with --max-redirs 0 a redirect is a failure",
            "--no-cache": "wget's --no-cache is -H 'Cache-Control: no-cache', or with --cache --cache-policy reload",
            "--connect-to": "write --resolve HOST:PORT:ADDRESS",
            "--etag-save": "write --existing updateIfChanged, which keeps the ETag beside the file, or --cache",
            "--etag-compare": "write --existing updateIfChanged, which keeps the ETag beside the file, or --cache",
            "--fail-early": "every URL is tried: run one command for each URL, joined by &&",
            "--next": "a run has one set of options: run the command twice, or write convoy run FILE.http",
            "--output-file": "wget's --output-file FILE is 2> FILE",
            "-0": "convoy sends HTTP/1.1 or HTTP/2; --http1 chooses HTTP/1.1",
            "-4": "IPv4 cannot be chosen; --resolve HOST:PORT:ADDRESS sets the address of a host",
            "-6": "IPv6 cannot be chosen; --resolve HOST:PORT:ADDRESS sets the address of a host",
            "--tlsv1.3": "write --tls-min 1.3",
            "--proxy-user": "a proxy's user is part of its URL: -x http://USER:PASSWORD@HOST:PORT",
            "--socks4": "write -x socks4://HOST:PORT",
            "--socks4a": "write -x socks4a://HOST:PORT",
            "--socks5": "write -x socks5://HOST:PORT",
            "--socks5-hostname": "write -x socks5h://HOST:PORT",
            "--no-check-certificate": "write --insecure",
            "--check-certificate": "certificates are checked by default; --insecure turns that off",
            "--checksum": "aria2's --checksum=sha-256=HEX is --sha256 HEX",
            "--dir": "aria2's --dir DIR is -P DIR",
            "--out": "aria2's --out NAME is -o NAME",
            "--split": "aria2's --split 8 is --segments 8",
            "--max-connection-per-server": "write --segments N for one file, --per-host N for many",
            "--max-concurrent-downloads": "write --jobs N",
            "--tries": "wget's --tries 3 is --retries 2, which does not count the first attempt",
            "--max-tries": "aria2's --max-tries 3 is --retries 2, which does not count the first attempt",
            "--timeout": "write --connect-timeout SEC, --max-time SEC or --min-speed BYTES",
            "--post-data": "wget's --post-data TEXT is -d TEXT",
            "--save-cookies": "wget's --save-cookies FILE is --cookie-jar FILE",
            "--load-cookies": "wget's --load-cookies FILE is -b FILE",
            "--recursive": "convoy does not follow links in pages; write a list of the URLs, and read it with -i FILE",
            "--no-clobber": "wget's --no-clobber is --existing skip",
            "--timestamping": "wget's --timestamping is --existing updateIfChanged",
            "--output-document": "wget's --output-document NAME is -o NAME",
        ]
        for name in withoutEqual { habits["--\(name)"] = "only curl has this option: use curl" }
        let longNames = ["http1.0": "-0", "ipv4": "-4", "ipv6": "-6"]
        for (name, letter) in longNames { habits["--\(name)"] = habits[letter] }
        habits["--continue"] = "downloads are always continued: remove it"
        return habits
    }()

    private static let withoutEqual = """
        alt-svc capath cert-status cert-type ciphers crlfile curves delegation dns-interface dns-ipv4-addr \
        dns-ipv6-addr dns-servers doh-cert-status doh-insecure doh-url engine haproxy-protocol \
        happy-eyeballs-timeout-ms hsts http0.9 http2-prior-knowledge ignore-content-length key-type libcurl \
        local-port no-alpn pass pinnedpubkey preproxy proxy-anyauth proxy-basic proxy-cacert proxy-cert \
        proxy-digest proxy-header proxy-insecure proxy-key proxy-negotiate proxy-ntlm request-target \
        tcp-fastopen tls13-ciphers tr-encoding xattr
        """.split(separator: " ")
}
