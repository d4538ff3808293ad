import Convoy

enum HelpText {
    static let tool = """
        convoy \(Version.current): downloads, many at a time

        Examples:
          convoy https://example.com/a.zip https://example.com/b.zip
          convoy -P downloads -j 16 -i urls.txt
          convoy -o - -d name=value https://example.com/form
          convoy demo

        Usage:
        \(commands)
          convoy --version        print the version

        Exit status:
        \(exitStatuses)
        """

    private static var commands: String {
        let usages = [
            ("convoy [fetch] [options] URL...", Subcommand.fetch.summary + "; resume interrupted downloads"),
            ("convoy run FILE.http [NAME...]", Subcommand.run.summary),
            ("convoy report EVENTS.jsonl...", Subcommand.report.summary),
            ("convoy import FILE", Subcommand.import.summary),
            ("convoy queue add|run|list...", Subcommand.queue.summary),
            ("convoy cache list|why...", Subcommand.cache.summary),
            ("convoy demo", Subcommand.demo.summary), ("convoy completions SHELL", Subcommand.completions.summary),
            ("convoy help WORD", "explain one of: " + HelpTopic.allCases.map(\.rawValue).joined(separator: ", ")),
        ]
        return TextLayout.terms(usages, column: 26)
    }

    static let exitStatuses = """
          0    everything succeeded, or was skipped
          1    something failed, or could not be written
          2    usage error, or limits too low for one request; no request was sent
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed
        """

    static let fetch = """
        Usage: convoy [fetch] [options] URL...
               convoy [fetch] [options] -i FILE

        Downloads every URL into a file. A file appears under its name only when it is
        complete; a partial file is kept, and the same command continues it.

        Examples:
          convoy https://example.com/a.zip https://example.com/b.zip
          convoy -P downloads -j 16 -i urls.txt
          convoy -P downloads -i urls.txt --existing skip    only missing files
          convoy -o - -H 'Accept: text/plain' https://example.com/page

        \(Subcommand.fetch.options.helpByGroup)

        Options and URLs may be mixed; "--" ends the options. A URL without a scheme is
        http for this machine, and otherwise https. {a,b}, [1-20], [001-100:5] and
        [a-z] in a URL are patterns for several URLs.

        A curl command works with convoy in place of curl, except for -i, -j, -P and
        --json, which have another meaning here. If such a command names no file, the
        body goes to standard output: with -s, -S, -f, -L, -G, -T, -D, --include or
        --fail-with-body, and when a body is sent. A status of 400 or more is always a
        failure, as with -f. A URL without such options is saved in a file, unless -o -
        is given.

        Standard output gets a line for each file, standard error the failures and the
        progress. The summary goes to standard error if standard output is a pipe, so
        that "convoy ... | tee log" logs only files.

        Environment:
        \(TextLayout.terms(variables, column: TextLayout.column))

        See also: convoy help lists, names, retries, json, signals
        """

    static let variables = [
        ("http_proxy", "the proxy for http URLs, in the form of --proxy"),
        ("https_proxy, all_proxy", "the same for https URLs, and for both; also in capitals"),
        ("no_proxy", "hosts that are reached without a proxy, separated by commas"),
        ("CURL_CA_BUNDLE", "trusted certificates (PEM), instead of the system's"),
        ("SSL_CERT_FILE", "the same, if CURL_CA_BUNDLE is not set"),
        ("XDG_CACHE_HOME", "--cache uses its directory convoy/http (default: ~/.cache)"),
        ("NO_COLOR", "no colours, if it is set"),
    ]

    static let demo = """
        Usage: convoy demo

        Starts an HTTP server on the loopback address and shows three things with it,
        live on a terminal and as plain lines elsewhere. It ends by itself after some
        seconds and leaves no files.
          batch     60 files of many sizes, at most 6 at once, some slow, one that
                    fails; results in input order
          chain     log in, read the user with the token, read the user's list; and a
                    chain whose first link fails
          download  cancelled at 40 %; then the rest is requested, and every byte is
                    verified
        Each ends with one line of measurements; no result is scripted.

        Options:
          -h, --help  print this

        Exit status:
          0    all three succeeded
          1    at least one failed; its line says why
          2    usage error
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed

        Example:
          convoy demo && echo works here
        """

    static let completions = """
        Usage: convoy completions bash|zsh|fish

        Prints a script that completes commands, options and their values in a shell:
        files after --input, directories after --directory-prefix, the choices of
        --existing and --transport.

        Options:
          -h, --help  print this

        For this session:
          bash    source <(convoy completions bash)
          zsh     source <(convoy completions zsh)       after compinit
          fish    convoy completions fish | source

        Permanently:
          bash    convoy completions bash \\
                    > ~/.local/share/bash-completion/completions/convoy
          zsh     convoy completions zsh > DIR/_convoy   DIR is one of $fpath
          fish    convoy completions fish > ~/.config/fish/completions/convoy.fish

        Exit status:
          0    the script was printed
          2    usage error
          141  standard output was closed
        """

    static let help = """
        Usage: convoy help WORD

        Explains a command or a topic:
        \(TextLayout.terms(HelpTopic.allCases.map { ($0.rawValue, $0.summary) }, column: 15))

        Options:
          -h, --help  print this
        """

    static let run = """
        Usage: convoy run [options] FILE.http [NAME...]

        Sends the requests of a file in the format of REST Client and JetBrains, or the
        named requests and their dependencies. A request that refers to the response of
        another, {{login.response.body.$.token}}, waits for that one; all others run at
        the same time. If a request fails, its dependents are not sent. All errors in
        the file are reported before any request is sent.

        Examples:
          convoy run api.http
          convoy run --env staging --variable user=ada api.http login profile
          convoy run --dry-run api.http
          convoy run --show both api.http login
          convoy run --report report.html api.http

        \(Subcommand.run.options.helpByGroup)

        In a file:
        \(requestFiles)

        Exit status:
        \(exitStatuses)
        """

    static let requestFiles = """
          ###, ### title          another request
          # @name login           the name that other requests use for it
          METHOD URL              then header fields, a blank line and the body
          @name = value           a variable; {{name}} is its value, {{%name}} encoded.
                                  A value from a response or a row is encoded in a
                                  path, query or form; {{&name}} does not encode it
          {{login.response.body.$.a[0].b}}, {{login.response.headers.Name}},
          {{login.response.cookies.name}}
          {{$uuid}} {{$timestamp -1 d}} {{$datetime iso8601}} {{$randomInt 1 10}}
          {{$processEnv NAME}} {{$dotenv NAME}}
          # @depends login        wait for a request without referring to it
          # @no-redirect, # @no-cookie-jar, # @disabled
          # @expect status 2xx    also header Name contains text, body.$.id == 3,
                                  body.$.id exists, time < 500ms
          # @timeout 30           seconds, or 500 ms, 2 m
          > {% client.global.set("x", response.body.id) %}
                                  also client.test, assert and log
          < file, <@ file         the body from a file; with @ its variables are
                                  replaced
          >> file, >>! file       the file for the response; with ! it replaces a file
        Other scripts, prompts and XPath are not supported: --skip-scripts skips the
        requests that need them. Requests that change something keep their order on
        each server.
        """

    static let report = """
        Usage: convoy report EVENTS.jsonl... --html FILE

        Joins the events that runs have written with --json, those of shards for
        example, and shows them on one page: a waterfall, a table to sort and filter
        with failures first, and the critical path, the longest chain of dependent
        requests. The page needs no network. The file of a killed run is read up to its
        end; a request that another run has continued counts once.

        With --compare the page shows two files beside each other, the earlier first:
        their statistics and times, each host, name and status, the requests that fail
        in the second only, and those that slowed down most.

        Examples:
          convoy run --json api.http > a.jsonl
          convoy report a.jsonl b.jsonl --html report.html
          convoy report --compare monday.jsonl tuesday.jsonl --html both.html

        \(Subcommand.report.options.helpByGroup)

        The page has no passwords and keys, and only the header fields of failed
        responses. URLs are shown without user names, and without the values of
        parameters whose names suggest a secret. Its title omits option values that may
        be secrets.

        Exit status:
          0    the summary was printed, and the page was written
          1    the page could not be written
          2    usage error, or a file that cannot be read; no page was written
          141  standard output was closed
        """

    static let importing = """
        Usage: convoy import [options] FILE

        Reads FILE, which is a HAR, a Postman collection (v2.1 or v2.0) or curl
        commands, and writes its requests as an .http file for convoy run. FILE may be
        -, for standard input.

        Examples:
          convoy import session.har --host 'api.*' -o api.http
          convoy import shop.postman_collection.json > shop.http
          convoy import - < curl-lines.txt

        \(Subcommand.import.options.helpByGroup)

        Each request has a name and its title. Credentials, cookies, keys and tokens
        become variables. Their values come from the environment of the process, or
        from --variable of convoy run. With --keep-secrets the file contains them.

        If a request of a HAR uses a value of an earlier response, such as a token or a
        cookie, the file refers to that response: {{login.response.body.$.token}}. Then
        convoy run sends the requests in that order, with new values.

        Postman scripts become response handlers where these can do the same. convoy
        reports what it omits on standard error, and in a comment above the request.

        Exit status:
          0    the requests were written
          1    they could not be written
          2    usage error, or a document that cannot be read; no file was written
          141  standard output was closed
        """

    static let queue = """
        Usage: \(QueueVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Keeps requests in a database until they are done: through crashes, reboots and
        days without a network. Each is sent at least once, every time with the same
        Idempotency-Key, so that a server that supports the field acts on it once.

        \(TextLayout.terms(QueueVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy queue add --db jobs.db --id order-17 --json-body @order.json URL
          convoy queue add --db jobs.db --after order-17 -P invoices -i invoices.txt
          convoy queue run --db jobs.db --watch -H "Authorization: Bearer $TOKEN"
          convoy queue list --db jobs.db --state dead
          convoy queue retry --db jobs.db --all

        \(Subcommand.queue.options.helpByGroup)

        Several processes may run one queue; on PostgreSQL, on several machines.
        The database stores no secrets: add refuses Authorization, Cookie and passwords
        in URLs. Give them to run (-H, -u, -b), which sends them with every job, to
        every server: do not use them with a queue to which others add jobs. run also
        waits for dates and between attempts. A response is discarded unless -o or -P
        name its file. A job is done when its response has the status 2xx. It becomes a
        dead letter when it fails for good, expires, or has used up its --retries (3;
        with --watch 1,000, which last for days). After SIGTERM, running requests have
        8 seconds to end; after that, or after another signal, their jobs return to the
        queue.

        Exit status:
          0    success; for run: no job became a dead letter
          1    some jobs became dead letters, lines of a list were invalid, or the
               database cannot be used
          2    usage error, or a job that cannot be stored
          129, 130, 143  stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed
        """

    static let cache = """
        Usage: \(CacheVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Shows and removes the responses that convoy fetch --cache and convoy run
        --cache have stored. A fresh response is used without the network; a stale one
        is validated by a conditional request (RFC 9111). These commands send no
        requests.

        \(TextLayout.terms(CacheVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy fetch --cache https://example.com/feed.xml
          convoy --cache --cache-policy only-cache -o - https://example.com/feed.xml
          convoy cache list 'https://example.com/*'
          convoy cache why https://example.com/feed.xml
          convoy cache remove 'example.com/private/*'

        \(Subcommand.cache.options.helpByGroup)

        A PATTERN is a URL with or without its scheme; * matches any characters. list
        and remove fail if no stored response matches.
        --request, --header, --head, --range and --cache-policy describe the request
        that why explains.

        The policies of --cache-policy:
          standard      a fresh response is used, a stale one is validated
          reload        the request is sent, and its response is stored
          revalidate    every stored response is validated, even a fresh one
          prefer-cache  a stored response is used, however old it is
          only-cache    the same; without one the request fails and is not sent
          no-store      the cache is neither read nor written

        With a cache, -v, the lines of files, %{cache} of -w, the "cache" of --json and
        a column of the report show how it was used:
          hit          a fresh response was used, and no request was sent
          stale        a stale response was used, as the response or the policy allows
          revalidated  the server confirmed a stored response (304)
          miss         the response came from the server
          bypass       the cache was not used

        Only this user can read the directory. Values of secret header fields and
        parameters are not shown. --cache-size is a strict limit: the response that was
        unused for the longest time is removed first. A response of more than an eighth
        of the limit is not stored.

        Exit status:
          0    success
          1    no cache exists, no stored response matches, or one was not removed
          2    usage error
          141  standard output was closed
        """

    static let names = """
        A file is named by the second column of a list, or by the last part of the
        URL's path: decoded, and without directories, leading dots and invisible
        characters; "download" if nothing remains. The directories in a list's names
        are created if each is such a name, and otherwise omitted; --no-directories
        omits all. The second file of one name in a run becomes NAME-1.EXT. With
        --content-disposition the response names the files that the list does not name,
        made safe in the same way; two runs into one directory then keep two files.
        -o NAME is used unchanged; if NAME is a link, its target is written. A link of
        any other name is replaced, and convoy reports it. A device or a pipe is
        written to, and no part of it is kept for the next run.

        Existing files (--existing):
          overwrite  the file is replaced when the new one is complete
          fail       the URL fails with destinationExists, and no request is sent
          rename     the new file becomes NAME-1.EXT, or the next free number
          skip       no request is sent, even if the server's file has changed. If the
                     digest is known, a file with another digest is fetched again
          updateIfChanged
                     a conditional request: the file is replaced if the server has
                     another version than the saved one. A file that was not saved
                     this way, or was changed since, is fetched again. The file gets
                     the modification time that the server sends
        The default is overwrite: after exit status 0 every file has the content of its
        server. A name that a server proposed never replaces a file: with
        --content-disposition the default is rename, and skip saves no transfer,
        because the name arrives with the response. To repeat a long list after an
        interruption, use skip: complete files are skipped. Partial files are continued
        either way.

        Files beside NAME while it is not complete:
          .NAME.convoy-part    the received bytes
          .NAME.convoy-resume  the version they belong to: the server's entity tag or
                               date, without URL and header fields
          .NAME.convoy-version the version for the conditional requests of
                               updateIfChanged; it is kept
        The first two are removed when NAME is complete. They are kept after a failure,
        an interruption and even a crash. The next run requests only the remaining
        bytes if the server still has the same version; otherwise it starts over.
        Nothing is kept if the server cannot continue a transfer. A crash loses parts
        of less than 1 MiB, and up to 4 MiB of a file in --segments. Remove these files
        if you do not want to continue. A part that another program writes to is
        deleted, and the file fails. Only one run at a time can use a part: a second
        one fails with destinationInUse.
        """

    static let retries = """
        A request is retried after a lost or refused connection, a timeout, and the
        status codes 408, 425, 429, 500, 502, 503 and 504. A POST is retried only if no
        connection was made, or after a 408. A retry continues the file of the attempt
        before it. The wait before retry 1, 2, 3... is a random part of 0.5, 1, 2...
        seconds, at most 30. If the response has a Retry-After, the retry waits for
        that time; after one of more than 5 minutes the request fails at once. If the
        next retry would come after the deadline, the request fails at once with its
        last failure.

        Up to 20 redirects are followed, never from https to http; the file's name
        comes from the URL that was given. When a redirect leads to another origin
        (scheme, host or port), passwords, cookies and the fields of --header are not
        sent there, because any of them may be a key. Only Accept, Accept-*,
        Cache-Control, Content-Type, Pragma, Range and User-Agent are sent.
        """

    static let signals = """
        SIGINT (Ctrl-C), SIGTERM, SIGHUP and a closed standard output cancel all
        requests. The received bytes are kept, and the summary shows their number. A
        second signal ends the run at once; without one it ends after 5 seconds at the
        latest. Parts are kept then too. Under nohup, SIGHUP is ignored.

        Exit status:
        \(exitStatuses)
        """

    static let lists = """
        A list (-i FILE, or -i - for standard input) is read as needed, however long.
        It is UTF-8, or UTF-16 with a byte order mark.
        Blank lines and lines that begin with # are skipped. An invalid line is
        reported with its number and counts as a failure; the other lines run. The
        first line of a list decides its format:

        URLs, one a line, with an optional name and digest after tabs:
          URL
          URL<TAB>NAME
          URL<TAB>NAME<TAB>DIGEST
        NAME may be empty, and DIGEST is sha256: or sha512: and its hexadecimal digits.

        JSON lines, one object each; only url is required. A digest that is neither
        sha256 nor sha512 is an error:
          {"url": "https://example.com/a", "name": "a.bin", "sha256": "9f86..."}

        SHA256SUMS or SHA512SUMS; --base URL says where the files are:
          9f86d081...0a08  image.iso
          SHA256 (image.iso) = 9f86d081...0a08
        A list of other digests, such as MD5, is an error. Of a clear-signed list
        (OpenPGP) the text is read; its signature is not verified: use gpg --verify.

        aria2's input file: the URLs of one file, separated by tabs, and its options in
        lines that begin with a space. out, checksum, header, referer and user-agent
        are supported, dir is an error, and options that only change the speed have no
        effect:
          https://example.com/a<TAB>https://mirror.example.com/a
            out=a.bin
            checksum=sha-256=9f86d081...0a08

        Metalink 4 (RFC 5854), not version 3, of at most 16 MiB: the URLs of each file
        by their priority, its size and its digest. A file of another size fails like
        one of another digest. A file with only digests of other types than SHA-256 and
        SHA-512 is an error.

        Of several URLs for a file, the first is used; if it fails or its file has
        another digest or size, the others follow one by one. Passwords, cookies and
        fields that may be keys are sent to the first only. With --segments and a
        digest they serve parts, as --mirror does.

        --save-failed writes such a list: the URLs that failed, were cancelled or were
        not reached, and then the invalid lines, each after a comment with its error.
        It does not contain lines that an interrupted run has not read, and convoy
        reports it. If it is the list that is read, such a run leaves it unchanged. The
        sizes of a Metalink are not in it.
        """

    static let json = """
        --json prints one JSON object a line on standard output. Standard error gets
        only the output of --verbose, and an error if a file cannot be written at the
        end. Every object has "event" and the members below, except those marked with
        ?. "index" counts the URLs of the run from 0, "url" is the given URL without
        its password; the events of one URL are in order.
          started    index, url
          progress   index, bytes, resumed_bytes?, expected_bytes?: the bytes of the
                     file, those of an earlier run included, and its size if known;
                     twice a second
          redirect   index, url, status, location: the new URL, without secrets
          retry      index, url, attempt, code, status?, delay_seconds: attempt 1, 2...
                     failed; the wait before the next
          finished   index, url, method?, status, bytes, resumed_bytes?, seconds,
                     attempts, file?: the bytes of the file, and how many of them an
                     earlier run had received; seconds since started; no file with
                     --discard
          skipped    index, url, file?: the file exists; no request was sent, and there
                     was no started, or with updateIfChanged the server has the same
                     version; with --newer the server has no newer version, and file
                     is absent if the file does not exist
          failed     index, url, code, message, attempts, status?, seconds?,
                     kept_bytes?, head?: the status of the response, if one
                     arrived; if no request was sent, attempts is 0, and seconds is
                     absent; the bytes kept for the next run; the header fields of the
                     response, without secrets
          failed     list, code, message, line?: an invalid line, or with the code
                     unreadableList a list that cannot be read further
          warning    message, list?: --insecure, a list without a URL, or with
                     --save-failed a list that was not read to its end
          summary    bytes, resumed_bytes, seconds, succeeded, skipped, failed,
                     failures, cancelled, kept_files, kept_bytes, exit_status: once, at
                     the end; bytes received now and resumed_bytes received earlier,
                     both of files that succeeded; failures are numbers by code

        finished, failed, and skipped after a request, have queued_at, when the URL was
        queued, in seconds since 1970; life_seconds, from queueing to the end; method?
        and timeline?: for each attempt, redirects included, in seconds, start (after
        queued_at), lookup?, connect?, tls?, wait, receive, and status?, code?, next?
        (redirect, retry or again), delay?, location?; with --cache they have cache:
        hit, stale, revalidated, miss or bypass. convoy report reads such events.

        convoy run prints the same events, except progress and skipped. "index" is the
        position in its plan, from 0, "name" the name of the request in the file,
        "after" the indices of its dependencies. A failed check has the code
        checkFailed, a request that was not sent because another one failed has
        dependencyFailed; the summary has "unsent" for those.

        "attempts" and "attempt" count the first attempt of a URL and its retries, not
        its redirects, and are absent with --segments. The code is one of these words;
        later versions may have more:
        \(RequestError.Code.all.map(\.rawValue).joined(separator: ", ").wrapped(toColumns: 78))
        """
}
