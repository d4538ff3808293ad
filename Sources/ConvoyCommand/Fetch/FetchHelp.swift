// The help of `convoy fetch`.

extension HelpText {
    static let fetch = """
        Usage: convoy fetch [options] URL...

        Downloads every URL into a file. A file appears under its name only when it is complete: a failure or an
        interruption leaves no half of one, and an existing file as it was.

        Options:
          -i, --input FILE      read URLs from FILE ("-": standard input), one a line; "URL<TAB>NAME" names the file;
                                blank lines and lines that begin with # are skipped; a broken line is reported by its
                                number, counts as a failure, and the others run. Read as needed, however long.
          -o, --output-dir DIR  where files go; it must exist (default: the current directory)
              --discard         receive the bodies and drop them, for measuring; no file is written
          -j, --jobs N          requests in flight at once, \(FetchOptions.jobsRange.lowerBound) to \
        \(FetchOptions.jobsRange.upperBound) (default \(FetchOptions.defaultJobs))
              --per-host N      of them to one host, in the same range (default \(FetchOptions.defaultPerHost))
              --retries N       attempts after the first, \(FetchOptions.retriesRange.lowerBound) to \
        \(FetchOptions.retriesRange.upperBound) (default \(FetchOptions.defaultRetries)): see "Retries and redirects"
              --deadline SEC    seconds for each URL from its turn on, everything included, such as 30 or 2.5 (default: no
                                limit); waiting for --per-host or a server's Retry-After counts
              --header 'K: V'   send this header field with every request; may be repeated; see "Retries and redirects"
              --transport NAME  curl or urlsession; the default is curl on Linux, urlsession elsewhere
              --quiet           print errors only
              --json            print one JSON object a line on standard output, and nothing else anywhere
          -h, --help            print this
        Options and URLs may be mixed; "--" ends the options.
        Not in this version: --sha256.

        Retries and redirects: what may work a second time is sent again: lost and refused connections, time-outs, and
        the answers 408, 425, 429, 500, 502, 503 and 504. The wait before retry 1, 2, 3... is a random part of 0.5, 1,
        2... seconds, of 30 at most; after the answer's Retry-After if it has one, of which 5 minutes at most are waited.
        A retry that could only come after the deadline is not waited for: the last failure counts.
        Up to 20 redirects are followed, never from https to http; the file's name comes from the URL that was given. When
        a redirect leads to another origin (scheme, host or port), the fields of --header stay behind, since any of them
        may be a key; only Accept, Accept-*, Cache-Control, Pragma, Range and User-Agent go along.

        File names are the second column of the list, or the last part of the URL's path with its escapes decoded,
        without directories, leading dots and characters that do not show; "download" when nothing is left. The second
        file of one name in a run becomes NAME-1.EXT. A file from before is replaced when the new one is complete.

        Output: on a terminal, live progress on standard error. Otherwise one line for each file on standard output, and
        a summary. Errors and retries go to standard error, one line each, without passwords; redirects are not told.

        JSON events: every object has "event", and what is said here unless it is marked with ?. "index" counts the URLs
        of the run from 0, "url" is the URL that was given, without its password; of one URL, events come in order.
          started    index, url
          progress   index, bytes, expected_bytes?: received in this attempt, and to be received if known; twice a second
          redirect   index, url, status, location: where it leads, without a password
          retry      index, url, attempt, code, status?, delay_seconds: attempt 1, 2... failed; the wait before the next
          finished   index, url, status, bytes, seconds, attempts, file?: seconds since started; no file with --discard
          failed     index, url, code, message, attempts, status?, seconds?: status is that of the answer, if there was
                     one; when nothing was sent, attempts is 0, and there are no seconds
          failed     list, code, message, line?: a broken line, or with code unreadableList a list that cannot be read
                     further
          summary    bytes, seconds, succeeded, failed, cancelled, exit_status: once, at the end
        "attempts" and "attempt" count a URL's first attempt and its retries, not its redirects. The code is a word:
        unacceptableStatus, connectionFailed, connectionLost, timedOut, deadlineExceeded, tlsFailed, badResponse,
        tooManyRedirects, redirectRefused, destinationUnwritable, invalidRequest, cancelled; there may be others.

        Exit status:
          0    everything succeeded
          1    some requests failed, or a line of the list was broken
          2    usage error, or a missing directory or list; nothing was run
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM: all requests were cancelled, temporary files
               removed; a second signal ends at once
          141  standard output was closed; everything was cancelled

        Examples:
          convoy fetch https://example.com/a.zip
          convoy fetch -i urls.txt -o downloads --jobs=16 --per-host=4
          printf 'https://example.com/?id=7\\tseven.html\\n' | convoy fetch -i - --json
          convoy fetch --retries 10 --deadline 600 https://example.com/busy.zip
          convoy fetch --header 'Authorization: Bearer TOKEN' https://example.com/private.pdf
        """
}
