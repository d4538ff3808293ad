// Options of curl, wget and aria2 that are called otherwise here, or are not needed.

extension FetchOptions {
    /// What to write in place of each.
    static let habits: [String: String] = {
        var habits = [
            "-sN": "aria2's -s 8 is --segments 8",
            "-q": "wget's -q is --quiet, and curl's -q is --no-config",
            "-t": "wget's and aria2's -t 3 is --retries 2, which does not count the first attempt",
            "-N": "wget's -N is --existing updateIfChanged",
            "-nc": "wget's -nc is --existing skip",
            "-l": "aria2's -l FILE has no equal here; --json and -v tell what happens",
            "-y": "curl's -y and -Y are --min-speed BYTES",
            "-Y": "curl's -y and -Y are --min-speed BYTES",
            "-U": "wget's -U NAME is -A NAME; a proxy's user stands in its URL: -x http://USER:PASSWORD@HOST:PORT",
            "--junk-session-cookies": "cookies of a session are kept for the run only: leave it out",
            "-a": "nothing is put behind a file; wget's -a FILE is 2> FILE",
            "--post301": "write -X POST, which redirects keep",
            "--post302": "write -X POST, which redirects keep",
            "--location-trusted": "secrets stay with the server that they are for: give the last URL itself",
            "--retry-max-time": "write --deadline SEC, which counts every attempt and wait",
            "--speed-time": "the time over which a speed counts is 30 seconds: leave it out",
            "--aws-sigv4": "requests are not signed here: sign with curl, or send a token with -H",
            "--ntlm": "NTLM is not spoken here",
            "--negotiate": "Kerberos is not spoken here",
            "--unix-socket": "only TCP is spoken here",
            "--http3": "HTTP/3 is not spoken here; HTTP/2 is without being asked",
            "--trace": "write -v, or --har FILE",
            "--trace-ascii": "write -v, or --har FILE",
            "--next": "a run has one set of options: run the command twice, or write convoy run FILE.http",
            "--output-file": "wget's --output-file FILE is 2> FILE",
            "-0": "requests are of HTTP/1.1 or HTTP/2; --http1 asks for the first",
            "-4": "there is no choice of IPv4; --resolve HOST:PORT:ADDRESS gives a host an address",
            "-6": "there is no choice of IPv6; --resolve HOST:PORT:ADDRESS gives a host an address",
            "--tlsv1.2": "TLS 1.2 is the least without being asked; --tls-min 1.3 asks for more",
            "--tlsv1.3": "write --tls-min 1.3",
            "--digest": "write --anyauth: the server is answered as it asks, by Digest where it offers that",
            "--basic": "-u sends Basic without being asked: leave it out",
            "--proxy-user": "a proxy's user stands in its URL: -x http://USER:PASSWORD@HOST:PORT",
            "--socks4": "write -x socks4://HOST:PORT",
            "--socks4a": "write -x socks4a://HOST:PORT",
            "--socks5": "write -x socks5://HOST:PORT",
            "--socks5-hostname": "write -x socks5h://HOST:PORT",
            "--no-check-certificate": "write --insecure",
            "--check-certificate": "certificates are checked without being asked; --insecure leaves that out",
            "--checksum": "aria2's --checksum=sha-256=HEX is --sha256 HEX",
            "--dir": "aria2's --dir DIR is -P DIR",
            "--out": "aria2's --out NAME is -o NAME",
            "--split": "aria2's --split 8 is --segments 8",
            "--max-connection-per-server": "aria2's is --segments N for one file, --per-host N for many",
            "--max-concurrent-downloads": "aria2's is --jobs N",
            "--tries": "wget's --tries 3 is --retries 2, which does not count the first attempt",
            "--max-tries": "aria2's --max-tries 3 is --retries 2, which does not count the first attempt",
            "--timeout": "write --connect-timeout SEC, --max-time SEC or --min-speed BYTES",
            "--post-data": "wget's --post-data TEXT is -d TEXT",
            "--save-cookies": "wget's --save-cookies FILE is --cookie-jar FILE",
            "--load-cookies": "wget's --load-cookies FILE is -b FILE",
            "--recursive": "no pages are read for links here; make a list of the URLs, and give it with -i",
            "--no-clobber": "wget's --no-clobber is --existing skip",
            "--timestamping": "wget's --timestamping is --existing updateIfChanged",
            "--output-document": "wget's --output-document NAME is -o NAME",
        ]
        let longNames = ["http1.0": "-0", "ipv4": "-4", "ipv6": "-6"]
        for (name, letter) in longNames { habits["--\(name)"] = habits[letter] }
        habits["--continue"] = "downloads are continued without being asked: leave it out"
        return habits
    }()
}
