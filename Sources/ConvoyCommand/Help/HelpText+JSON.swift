// The help topic `json`: the output of `--json`.
import Convoy

extension HelpText {
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
