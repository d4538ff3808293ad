/// Command lines from the manual of curl, from its book and from common questions, with their expected effects.
enum CurlManualLines {
    /// The effect of a line in which the command replaces `curl`.
    enum Fate: String, CaseIterable {
        /// The line has the same effect as with curl.
        case alike
        /// The line has the same effect with `-o -`.
        ///
        /// Without `-o -`, the command saves the body in a file.
        case printed
        /// The command sends nothing, and its message names a correction.
        case told
        /// The line has another effect than with curl.
        case differs
    }

    /// `URL` stands for the server, and `PORT` for its port.
    static let all = (manual + "\n" + book + "\n" + answers).split(separator: "\n").compactMap { row in
        let words = row.split(separator: " ", maxSplits: 1)
        return Fate(rawValue: String(words[0])).map { (fate: $0, line: words[1].drop { $0 == " " }) }
    }

    /// The examples of curl(1) for HTTP, with their options.
    private static let manual = #"""
        printed curl --anyauth --user me:pwd URL/a
        printed curl -u name:password --basic URL/a
        printed curl --config file.txt URL/a
        told    curl --connect-to example.com:80:127.0.0.1:PORT http://example.com/a
        alike   curl -C - -O URL/a
        told    curl -C 2 URL/a
        printed curl -c store-here.txt URL/a
        printed curl -c store-here.txt -b cookiefile URL/a
        printed curl -b cookiefile URL/a
        printed curl -b "NAME1=VALUE1; NAME2=VALUE2" URL/a
        alike   curl --data-ascii @filename URL/a
        alike   curl --data-urlencode @filename URL/a
        alike   curl -d @filename URL/a
        printed curl -u name:password --digest URL/digest
        told    curl -q -s URL/a
        told    curl --etag-compare etag.txt URL/a
        told    curl --etag-save storetag.txt URL/a
        alike   curl --expect100-timeout 2.5 -T filename URL/a
        told    curl --fail-early URL/a URL/b
        alike   curl --form-string "data=@text" URL/a
        alike   curl -F profile=@portrait.jpg URL/upload.cgi
        alike   curl -F "web=@index.html;type=text/html" URL/a
        alike   curl --get -I -d "tool=curl" URL/a
        differs curl -g "URL/{[]}}}}"
        alike   curl -I URL/a
        printed curl -H "User-Agent: yes-please/2000" URL/a
        alike   curl -f -H "Host:" URL/a
        printed curl -H @headers.txt URL/a
        told    curl --http1.0 URL/a
        printed curl --http1.1 URL/a
        told    curl -i URL/a
        told    curl --ipv4 URL/a
        told    curl --json '{ "drink": "coffe" }' URL/a
        told    curl --json @prepared URL/a
        told    curl --junk-session-cookies -b cookiefile URL/a
        alike   curl --keepalive-time 20 URL/a
        printed curl --limit-rate 100K URL/a
        told    curl --location-trusted -u user:password URL/moved
        printed curl --max-filesize 100K URL/a
        printed curl --netrc-file netrc URL/a
        told    curl URL/a --next -d postthis URL/b
        alike   curl --no-buffer URL/a
        alike   curl --no-keepalive URL/a
        alike   curl --no-progress-meter -o store URL/a
        alike   curl --parallel URL/a -o file1 URL/b -o file2
        told    curl --path-as-is URL/../../etc/passwd
        told    curl --post301 --location -d "data" URL/moved
        alike   curl --proto =http,https URL/a
        told    curl --request-target "/*" -X OPTIONS URL/
        printed curl --resolve example.com:PORT:127.0.0.1 http://example.com:PORT/a
        told    curl --retry-max-time 30 --retry 10 URL/a
        printed curl --speed-limit 300 --speed-time 10 URL/a
        alike   curl --tcp-nodelay URL/a
        told    curl -z "Wed 01 Sep 2021 12:18:00" URL/a
        alike   curl -z file URL/a
        alike   curl --tlsv1.2 URL/a
        told    curl --trace-ascii log.txt URL/a
        told    curl -T "img[1-2].png" URL/up/
        told    curl --upload-file "{img1,img2}.png" URL/up/
        told    curl --url-query name=val URL/a
        printed curl -v URL/a
        printed curl -w '%{response_code}\n' URL/a
        told    curl --xattr -o storage URL/a
        printed curl -x http://127.0.0.1:PORT http://example.com/a
        told    curl --capath /local/directory URL/a
        told    curl --ciphers ECDHE-ECDSA-AES256-CCM8 URL/a
        alike   curl --dns-servers 192.168.0.1,192.168.0.2 URL/a
        told    curl --doh-url https://doh.example URL/a
        alike   curl --http2-prior-knowledge URL/a
        told    curl --libcurl client.c URL/a
        told    curl --pinnedpubkey keyfile URL/a
        alike   curl --unix-socket socket-path URL/a
        alike   curl --retry-all-errors --retry 5 URL/a
        told    curl --tr-encoding URL/a
        told    curl --proxy-header "X-First-Name: Joe" -x http://127.0.0.1:PORT http://example.com/a
        told    curl --tcp-fastopen URL/a
        told    curl --stderr output.txt URL/a
        told    curl --rate 2/s URL/a
        """#

    /// The examples of the book "Everything curl".
    private static let book = #"""
        printed curl URL/a
        printed curl URL/a URL/b
        printed curl URL/a > file
        alike   curl --data-binary @index.html -H 'Content-Type: application/json' URL/a
        alike   curl -X POST URL/a
        alike   curl -T filename -X PATCH URL/a
        alike   curl -H 'Destination: http://moo.com/' -X MOVE URL/a
        printed curl -r 0-3,5-6 URL/a
        printed curl -r -4 URL/a
        alike   curl -L -b cookiefile -c newcookies.txt URL/moved
        alike   curl -b "" -L URL/moved
        alike   curl --head --location URL/moved
        alike   curl -w @format -o /dev/null -s URL/a
        printed curl 'http://daniel:secret@127.0.0.1:PORT/a'
        """#

    /// The examples of common questions and their answers.
    private static let answers = #"""
        alike   curl -H "Content-Type: application/json" --data @data.json URL/a
        told    curl -i -X OPTIONS URL/a
        alike   curl -sSL URL/install.sh | sh
        printed curl -H "Authorization: Bearer TOKEN" URL/a
        alike   curl -s -H 'Accept: application/json' -H 'X-Api-Key: k' URL/a
        told    curl -sL --connect-timeout 5 --max-time 10 --retry 5 --retry-delay 1 --retry-max-time 40 URL/a
        alike   curl -sIL -o /dev/null -w '%{url_effective}\n' URL/moved
        alike   curl -w '\n%{time_total}\n' -o /dev/null -s URL/a | wc -l
        alike   curl -s URL/a | head -c 3
        alike   curl -s --head URL/a | head -n 1
        printed curl -XGET 'URL/_search?pretty' -H 'Content-Type: application/json' -d '{"query":{}}'
        alike   curl -sS --fail-with-body -X POST -d a=b URL/missing
        printed curl -H 'Cache-Control: no-cache' URL/a
        alike   curl -I -X GET URL/a
        alike   curl -s --retry 3 -f URL/a -o x && cat x
        told    curl -N URL/a
        """#
}
