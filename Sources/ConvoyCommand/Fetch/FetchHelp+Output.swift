// The help of `convoy fetch`: what it prints, what stops it, what it ends with.

extension HelpText {
    static let fetchOutput = """
        Output: on a terminal, live progress on standard error. Otherwise one line for each file on standard output. At the
        end a summary: files, bytes received, bytes that were there before, time, rate, and what was skipped, failed (by
        code) and cancelled; then what is kept in part. Errors and retries go to standard error, one line each, without
        passwords; redirects are not told.

        JSON events: every object has "event", and what is said here unless it is marked with ?. "index" counts the URLs
        of the run from 0, "url" is the URL that was given, without its password; of one URL, events come in order.
          started    index, url
          progress   index, bytes, resumed_bytes?, expected_bytes?: of the file, those from before included, and to be
                     received if known; twice a second
          redirect   index, url, status, location: where it leads, without a password
          retry      index, url, attempt, code, status?, delay_seconds: attempt 1, 2... failed; the wait before the next
          finished   index, url, status, bytes, resumed_bytes?, seconds, attempts, file?: the bytes of the file, and how
                     many of them an earlier run had left; seconds since started; no file with --discard
          skipped    index, url, file: it is there; nothing was sent, and it was not started, or with updateIfChanged
                     the server has the same version
          failed     index, url, code, message, attempts, status?, seconds?, kept_bytes?: status is that of the answer, if
                     there was one; when nothing was sent, attempts is 0, and there are no seconds; what is kept in part
          failed     list, code, message, line?: a broken line, or with code unreadableList a list that cannot be read
                     further
          summary    bytes, resumed_bytes, seconds, succeeded, skipped, failed, failures, cancelled, kept_files,
                     kept_bytes, exit_status: once, at the end; bytes were received, resumed_bytes were there before,
                     both of files that succeeded; failures counts by code
        "attempts" and "attempt" count a URL's first attempt and its retries, not its redirects. The code is a word:
        unacceptableStatus, connectionFailed, connectionLost, timedOut, deadlineExceeded, tlsFailed, badResponse,
        tooManyRedirects, redirectRefused, integrityFailed, destinationExists, destinationInUse, destinationUnwritable,
        diskFull, invalidRequest, cancelled; there may be others.

        Signals: SIGINT (Ctrl-C), SIGTERM and SIGHUP, and standard output that is closed, cancel all requests; what has
        been received is kept, and the summary says how much. A second signal ends the run at once, as do 5 seconds in
        which it does not end by itself; parts are kept then too. SIGHUP is left alone under nohup.

        Exit status:
          0    everything succeeded or was skipped
          1    some requests failed, a line of the list was broken, standard output could not be written, or there were
               too few threads (ulimit -u, a container's limit) for one request
          2    usage error, a missing directory or list, or limits of memory or descriptors (ulimit -v, ulimit -n) that
               are too low for one request; nothing was run
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed

        Examples:
          convoy fetch https://example.com/a.zip
          convoy fetch -i urls.txt -o downloads --jobs=16 --per-host=4
          convoy fetch -i urls.txt -o downloads --existing skip           again, for what is missing
          convoy fetch --sha256 9f86d0...0a08 https://example.com/image.iso
          convoy fetch -J 'https://example.com/download?id=7'
          printf 'https://example.com/?id=7\\tseven.html\\n' | convoy fetch -i - --json
          convoy fetch --retries 10 --deadline 600 https://example.com/busy.zip
          convoy fetch --header 'Authorization: Bearer TOKEN' https://example.com/private.pdf
        """
}
