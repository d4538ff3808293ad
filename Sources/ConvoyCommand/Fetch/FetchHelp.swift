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
              --header 'K: V'   send this header field with every request; may be repeated
              --transport NAME  curl or urlsession; the default is curl on Linux, urlsession elsewhere
              --quiet           print errors only
              --json            print one JSON object a line on standard output, and nothing else anywhere
          -h, --help            print this
        Options and URLs may be mixed; "--" ends the options.
        Not in this version: --retries, --deadline, --sha256.

        File names are the second column of the list, or the last part of the URL's path with its escapes decoded,
        without directories, leading dots and characters that do not show; "download" when nothing is left. The second
        file of one name in a run becomes NAME-1.EXT. A file from before is replaced when the new one is complete.

        Output: on a terminal, live progress on standard error. Otherwise one line for each file on standard output, and
        a summary. Errors go to standard error, one line each, without passwords.
        JSON events: started, progress (twice a second), finished (status, bytes, seconds, file), failed (code, message,
        and line for a broken line of the list), summary.

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
          convoy fetch --header 'Authorization: Bearer TOKEN' https://example.com/private.pdf
        """
}
