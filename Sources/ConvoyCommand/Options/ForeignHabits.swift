// Options of curl, wget and aria2 that are called otherwise here, or are not needed.

extension FetchOptions {
    /// What to write in place of each.
    static let habits: [String: String] = {
        var habits = [
            "-c": "downloads are continued without being asked; curl's -c FILE is --cookie-jar FILE",
            "-C": "downloads are continued without being asked: leave it out",
            "-s": "curl's -s is --quiet, and aria2's -s 8 is --segments 8",
            "-S": "errors are always told: leave it out",
            "-L": "redirects are followed without being asked: leave it out",
            "-f": "an answer of 400 or more is a failure without being asked: leave it out",
            "-O": "files are named by their URL without being asked: leave it out; wget's -O NAME is -o NAME",
            "-q": "wget's -q is --quiet, and curl's -q is --no-config",
            "-t": "wget's and aria2's -t 3 is --retries 2, which does not count the first attempt",
            "-T": "wget's -T 30 is --connect-timeout 30; a file is sent by -X PUT --data-binary @FILE",
            "-N": "wget's -N is --existing updateIfChanged",
            "-nc": "wget's -nc is --existing skip",
            "-G": "add what is to be asked for to the URL, behind a question mark",
            "-D": "curl's -D FILE has no equal here; -v prints the header fields of the answers",
            "-Z": "requests run at the same time without being asked: leave it out",
            "-l": "aria2's -l FILE has no equal here; --json and -v tell what happens",
            "-y": "curl's -y and -Y are --min-speed BYTES",
            "-Y": "curl's -y and -Y are --min-speed BYTES",
            "-U": "wget's -U NAME is -A NAME; a proxy's user stands in its URL: -x http://USER:PASSWORD@HOST:PORT",
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
            "--upload-file": "a file is sent by -X PUT --data-binary @FILE",
            "--save-cookies": "wget's --save-cookies FILE is --cookie-jar FILE",
            "--load-cookies": "wget's --load-cookies FILE is -b FILE",
            "--recursive": "no pages are read for links here; make a list of the URLs, and give it with -i",
            "--no-clobber": "wget's --no-clobber is --existing skip",
            "--timestamping": "wget's --timestamping is --existing updateIfChanged",
            "--output-document": "wget's --output-document NAME is -o NAME",
            "--data-urlencode": "encode it yourself, and write -d NAME=VALUE",
        ]
        let longNames = [
            "continue": "-c", "location": "-L", "fail": "-f", "show-error": "-S", "remote-name": "-O",
            "remote-name-all": "-O", "continue-at": "-C", "parallel": "-Z", "get": "-G", "dump-header": "-D",
        ]
        for (name, letter) in longNames { habits["--\(name)"] = habits[letter] }
        habits["--continue"] = "downloads are continued without being asked: leave it out"
        habits["--remote-name"] = "files are named by their URL without being asked: leave it out"
        return habits
    }()
}
