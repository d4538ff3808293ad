// Topic: what --json prints.
import Convoy

extension HelpText {
    static let json = """
        --json prints one object a line on standard output, and nothing else anywhere,
        but for what --verbose tells and for a file that cannot be written at the end,
        both on standard error. Every object has "event", and what is said here unless
        it is marked with ?. "index" counts the URLs of the run from 0, "url" is what
        was given, without its password; of one URL, events come in order.
          started    index, url
          progress   index, bytes, resumed_bytes?, expected_bytes?: of the file, those
                     from before included, and to be received if known; twice a second
          redirect   index, url, status, location: where it leads, without a password
          retry      index, url, attempt, code, status?, delay_seconds: attempt 1, 2...
                     failed; the wait before the next
          finished   index, url, method?, status, bytes, resumed_bytes?, seconds,
                     attempts, file?: the bytes of the file, and how many of them an
                     earlier run had left; seconds since started; no file with
                     --discard
          skipped    index, url, file?: it is there; nothing was sent, and it was not
                     started, or with updateIfChanged the server has the same version;
                     with --newer the server has nothing newer, and no file if none is
                     there
          failed     index, url, code, message, attempts, status?, seconds?,
                     kept_bytes?, head?, body?: status is that of the answer, if there
                     was one; when nothing was sent, attempts is 0, and there are no
                     seconds; what is kept in part; the header fields of a refusal,
                     and the first 64 KiB of its text, both without secrets
          failed     list, code, message, line?: a broken line, or with code
                     unreadableList a list that cannot be read further
          warning    message, list?: --insecure, a list without a URL, or with
                     --save-failed one that was not read to its end
          summary    bytes, resumed_bytes, seconds, succeeded, skipped, failed,
                     failures, cancelled, kept_files, kept_bytes, exit_status: once, at
                     the end; bytes were received, resumed_bytes were there before,
                     both of files that succeeded; failures counts by code

        finished, failed, and skipped if something was sent, have queued_at, when the
        URL was taken, in seconds since 1970, life_seconds from there to the end,
        method? and timeline?: for each attempt, redirects included, in seconds, start
        (after queued_at), lookup?, connect?, tls?, wait, receive, and status?, code?,
        next? (redirect, retry or again), delay?, location?; with --cache they have
        cache: hit, stale, revalidated, miss or bypass. Files of events are joined by
        convoy report.

        convoy run has the same events, but for progress and skipped. "index" is the
        place in its plan, from 0, "name" what the file calls the request, "after" the
        indices of those that it waited for. A failed check has the code checkFailed,
        what was not sent because of another dependencyFailed; the summary has
        "unsent" for those.

        "attempts" and "attempt" count a URL's first attempt and its retries, not its
        redirects, and are not told with --segments. The code is one of these words;
        later versions may have more:
        \(RequestError.Code.all.map(\.rawValue).joined(separator: ", ").wrapped(toColumns: 78))
        """
}
