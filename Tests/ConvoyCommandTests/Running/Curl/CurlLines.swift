/// Command lines of curl, many from its manual, its book and common questions, by their effect with the command.
///
/// `URL` stands for the server, and `PORT` for its port. The tables omit `curl` before an option, and a last `URL/a`.
enum CurlLines {
    private static func lines(_ short: [String]) -> [String] {
        short.map { line in
            let hasURL = line.contains("URL") || line.contains("://")
            return (line.hasPrefix("-") ? "curl " : "") + line + (hasURL ? "" : " URL/a")
        }
    }

    /// The line has the same effect as with curl.
    static let alike = lines([
        "-s", "-s URL/a URL/b", "-fsSL URL/moved", "--silent --show-error --fail --location URL/moved",
        "-s -o x --url URL/gzip", "-s -# -Z -C -", "-s -o /dev/null -w '%{http_code}'",
        "-s -o /dev/null -o /dev/null -w '%{http_code} ' URL/a URL/b",
        "-s -o /dev/null -w '%{num_headers} %{time_redirect} %{method}'",
        #"-s -w '%{json}' -o /dev/null URL/a | grep -o '"http_code":200'"#, "-sI -o /dev/null -w '%{http_code}'",
        "-s -o /dev/stdout", "-s -o /dev/stderr URL/a 2> copy", "mkfifo p; cat p & curl -s -o p URL/a; wait; rm p",
        "-sO", "-sO URL/a -O URL/b", "-s --remote-name-all URL/a URL/b", "-sLOJ URL/named", "-s -o x URL/a -o y URL/b",
        "-s -o x -O URL/a URL/b", "-s --create-dirs -o d/e/x", "-s -R -o x URL/a; stat -c %Y x || stat -f %m x",
        "-s --output x", "-s 'URL/{a,b}' -o '#1.out'", "-s 'URL/[08-10]/{x,y}' -o '#1_#2'", "-s 'URL/p[1-3]'", "-s -g",
        "touch t; ln -s t l; curl -s -o l URL/a; test -L l && echo link",
        "ln -s t l; curl -s -o l URL/a; test -L l && echo link", "-s -G -d q=1 --data-urlencode 'r=a b&c' URL/s",
        "-s -G -d q=1 'URL/s?z=1#f'", "-s -G URL/s",
        "-s --data-urlencode 'a b' --data-urlencode '=c=d' --data-urlencode 'e@up' URL/f", "-s -d a=b -d c=d URL/f",
        "-s -X POST -H 'Content-Type: application/json' -d '{}' URL/f", "-s -T up URL/d/", "-s -T up URL",
        "-s -X POST -T up URL/x", "-s -T - URL/x < up", "-sSf -XPOST -d @- URL/x < up",
        "-d a=b URL/f 2> errors; rm errors", "-s --oauth2-bearer t0k", "-s -u me:pw", "-s -b a=b",
        "-s -A me -e http://ref/ -H 'X-A: b' URL/a", "-s -x ''", "-s --noproxy '*'",
        "http_proxy=http://127.0.0.1:1 curl -s --noproxy 127.0.0.1 URL/a", "-sL --max-redirs 1 URL/moved",
        "-sL --max-redirs 0 URL/moved", "-sL --max-redirs -1 URL/moved",
        "-s --retry 2 --retry-delay 1 --retry-connrefused", "-s --http2 -m 9 --connect-timeout 9",
        "-s --compressed -k -n URL/gzip", "-s -c jar -o x URL/a; test -f jar && rm jar", "-sL -D heads -o x URL/moved",
        "-s -D - -o /dev/null", "-s --include", "-sL --include URL/moved", "-s --fail-with-body URL/missing",
        "-s --fail-with-body -o x URL/missing", "-fsSL URL/missing", "-s --request PUT -d a=b --data 'c d=e' URL/f",
        "-s -d '' URL/f", "-s --data-raw @here URL/f", "-s -d a -H 'Content-Type: text/plain' URL/f", "-s -H 'X-Key;'",
        "-s -F 'f=@filename;type=text/x-own;filename=other.txt' URL/f",
        "-s -F 't=<filename' -F 'u=v;type=text/own' URL/f", #"-s -F 'n="a\"b"' URL/f"#, #"-s -F 'n="a;b\\"' URL/f"#,
        #"-s -F 'n="a\nb"' URL/f"#, #"-s -F 'n=5" pipe;type=text/plain' URL/f"#, #"-s -F 'n="abc' URL/f"#,
        #"-s -F 'n=a"b"c' URL/f"#, #"-s -F 'n="@a"' URL/f"#, #"-s -F 'n=""' URL/f"#, #"-s -F 'n=a\"b' URL/f"#,
        #"-s -F 'n=@filename;filename="q\"r;s.txt"' URL/f"#, "-s -u 'me:secret:with colon'",
        "-s --netrc-file netrc -u you:own", "-s -x http://me:p%40w@127.0.0.1:PORT http://example.com/a",
        "-s -x 127.0.0.1:PORT http://example.com/a", "-s --range 7-", "-s -z '31 Jan 2026'",
        "-s -z 'Sat, 31 Jan 2026 12:00:00 GMT'", "-s -z '29 Jan 2026' URL/new",
        "-s -z '31 Jan 2026' -w '%{http_code} %{exitcode} %{size_download}' -o page",
        #"-sL -o /dev/null -w '%{http_code} %{size_download} %{content_type}|%{num_redirects}\n' URL/moved"#,
        "-s -o /dev/null -w '100%% %{method} %header{x-a}'",
        "-sL -o x -w '%{url_effective} %{response_code} %{remote_ip} %{http_version} %{exitcode}' URL/moved",
        "-s -o - -w '|%{filename_effective}'", "-s -o /dev/null -w '%{filename_effective}'",
        "-s -o tmp/x -w '%{filename_effective}'", "-sI -w '|%{filename_effective}'",
        "-s -o x --output-dir tmp -w '%{filename_effective}'", "-s -O --output-dir tmp -w '%{filename_effective}'",
        "-s -w '|%{filename_effective}'", "-C - -O", "--data-ascii @filename", "--data-urlencode @filename",
        "-d @filename", "--expect100-timeout 2.5 -T filename", #"--form-string "data=@text""#,
        "-F profile=@portrait.jpg URL/upload.cgi", #"-F "web=@index.html;type=text/html""#,
        #"--get -I -d "tool=curl""#, "-I", #"-f -H "Host:""#, "--keepalive-time 20", "--no-buffer", "--no-keepalive",
        "--no-progress-meter -o store", "--parallel URL/a -o file1 URL/b -o file2", "--proto =http,https",
        "--tcp-nodelay", "-z file", "--tlsv1.2", "--dns-servers 192.168.0.1,192.168.0.2", "--http2-prior-knowledge",
        "--unix-socket socket-path", "--retry-all-errors --retry 5",
        "--data-binary @index.html -H 'Content-Type: application/json'", "-X POST", "-T filename -X PATCH",
        "-H 'Destination: http://moo.com/' -X MOVE URL/a", "-L -b cookiefile -c newcookies.txt URL/moved",
        #"-b "" -L URL/moved"#, "--head --location URL/moved", "-w @format -o /dev/null -s",
        #"-H "Content-Type: application/json" --data @data.json"#, "-sSL URL/install.sh | sh",
        "-s -H 'Accept: application/json' -H 'X-Api-Key: k'", #"-sIL -o /dev/null -w '%{url_effective}\n' URL/moved"#,
        #"-w '\n%{time_total}\n' -o /dev/null -s URL/a | wc -l"#, "-s URL/a | head -c 3",
        "-s --head URL/a | head -n 1", "-sS --fail-with-body -X POST -d a=b URL/missing", "-I -X GET",
        "-s --retry 3 -f URL/a -o x && cat x", "-s --max-filesize 6 -o x",
        "http_proxy=http://127.0.0.1:PORT curl -s -o x 'http://example.invalid/a?b'",
        "all_proxy=http://127.0.0.1:PORT curl -s -o x 'http://example.invalid/a?b'",
        "http_proxy=http://127.0.0.1:1 no_proxy=127.0.0.1 curl -s URL/a",
        "all_proxy=http://127.0.0.1:1 no_proxy=127.0.0.1 curl -s URL/a",
    ])

    /// The line has the same effect with `-o -`.
    ///
    /// Without `-o -`, the command saves the body in a file.
    static let printed = lines([
        "--anyauth --user me:pwd", "-u name:password --basic", "--config file.txt", "-c store-here.txt",
        "-c store-here.txt -b cookiefile", "-b cookiefile", #"-b "NAME1=VALUE1; NAME2=VALUE2""#,
        "-u name:password --digest URL/digest", #"-H "User-Agent: yes-please/2000""#, "-H @headers.txt", "--http1.1",
        "--limit-rate 100K", "--max-filesize 100K", "--netrc-file netrc",
        "--resolve example.com:PORT:127.0.0.1 http://example.com:PORT/a", "--speed-limit 300 --speed-time 10", "-v",
        #"-w '%{response_code}\n'"#, "-x http://127.0.0.1:PORT http://example.com/a", "curl URL/a", "curl URL/a URL/b",
        "curl URL/a > file", "-r 0-3,5-6", "-r -4", "curl 'http://daniel:secret@127.0.0.1:PORT/a'",
        #"-H "Authorization: Bearer TOKEN""#,
        #"-XGET 'URL/_search?pretty' -H 'Content-Type: application/json' -d '{"query":{}}'"#,
        "-H 'Cache-Control: no-cache'",
    ])

    /// The command sends nothing, and its message names a correction.
    static let told = lines([
        "--connect-to example.com:80:127.0.0.1:PORT http://example.com/a", "-C 2", "-q -s", "--etag-compare etag.txt",
        "--etag-save storetag.txt", "--fail-early URL/a URL/b", "--http1.0", "-i", "--ipv4",
        #"--json '{ "drink": "coffe" }'"#, "--json @prepared", "--junk-session-cookies -b cookiefile",
        "--location-trusted -u user:password URL/moved", "curl URL/a --next -d postthis URL/b",
        "--path-as-is URL/../../etc/passwd", #"--post301 --location -d "data" URL/moved"#,
        #"--request-target "/*" -X OPTIONS URL/"#, "--retry-max-time 30 --retry 10", #"-z "Wed 01 Sep 2021 12:18:00""#,
        "--trace-ascii log.txt", #"-T "img[1-2].png" URL/up/"#, #"--upload-file "{img1,img2}.png" URL/up/"#,
        "--url-query name=val", "--xattr -o storage", "--capath /local/directory", "--ciphers ECDHE-ECDSA-AES256-CCM8",
        "--doh-url https://doh.example URL/a", "--libcurl client.c", "--pinnedpubkey keyfile", "--tr-encoding",
        #"--proxy-header "X-First-Name: Joe" -x http://127.0.0.1:PORT http://example.com/a"#, "--tcp-fastopen",
        "--stderr output.txt", "--rate 2/s", "-i -X OPTIONS",
        "-sL --connect-timeout 5 --max-time 10 --retry 5 --retry-delay 1 --retry-max-time 40", "-N",
    ])

    /// The line has another effect than with curl.
    static let differs = lines([#"-g "URL/{[]}}}}""#])
}
