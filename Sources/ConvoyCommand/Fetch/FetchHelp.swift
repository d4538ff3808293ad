// The help of `convoy fetch`: what it does, its options, how it names, continues and repeats.

extension HelpText {
    static let fetch = """
        Usage: convoy fetch [options] URL...
               convoy fetch [options] -i FILE

        Downloads every URL into a file. A file appears under its name only when it is complete, has its length and its
        digest and is on the disk. What a failure or an interruption cut off is kept, and the same command continues it.

        Options:
          -i, --input FILE      read URLs from FILE ("-": standard input), one a line; see "Lists"
          -o, --output-dir DIR  where files go; it must exist (default: the current directory)
          -J, --content-disposition
                                name files as the server proposes, otherwise as the URL that answered; see "File names"
              --existing WHAT   when a file is there already: overwrite, fail, rename, skip or updateIfChanged; see
                                "Existing files"
              --sha256 HEX      the digest of the file, 64 hexadecimal digits; for a single URL, lists have a column
              --sha512 HEX      the same with 128 digits; a file with another digest fails and is thrown away
              --discard         receive the bodies and drop them, for measuring; no file is written, nothing is verified
          -j, --jobs N          requests in flight at once, \(FetchOptions.jobsRange.lowerBound) to \
        \(FetchOptions.jobsRange.upperBound) (default \(FetchOptions.defaultJobs)); fewer where the limits of the process
                                (ulimit -n, ulimit -v) are too low for so many
              --per-host N      of them to one host, in the same range (default \(FetchOptions.defaultPerHost))
              --segments N      ranges of one file fetched at once, \(FetchOptions.segmentsRange.lowerBound) to \
        \(FetchOptions.segmentsRange.upperBound) (default 1); --jobs and
                                --per-host count files then, and "attempts" is not told; for files of 2 MiB or more from
                                servers that can be asked for ranges
              --retries N       attempts after the first, \(FetchOptions.retriesRange.lowerBound) to \
        \(FetchOptions.retriesRange.upperBound) (default \(FetchOptions.defaultRetries)): see "Retries and redirects"
              --deadline SEC    seconds for each URL from its turn on, everything included, such as 30 or 2.5 (default: no
                                limit); waiting for --per-host or a server's Retry-After counts
              --rate BYTES      bytes per second of all together, such as 500k, 2.5M, 1G (powers of 1000) or 1MiB (of
                                1024) (default: no limit)
              --min-speed BYTES
                                bytes per second, written like --rate: an attempt that is slower over 30 seconds has
                                failed (default: none)
              --header 'K: V'   send this header field with every request; may be repeated; see "Retries and redirects"
              --compressed      ask for compressed bodies and store them decompressed; such a file cannot be continued.
                                Without it a file is stored as its server sends it, a .gz that is labelled so too
              --transport NAME  curl or urlsession; the default is curl on Linux, urlsession elsewhere
              --quiet           print errors only
              --json            print one JSON object a line on standard output, and nothing else anywhere
          -h, --help            print this
        Options and URLs may be mixed; "--" ends the options.

        \(fetchFiles)

        \(fetchRepeating)

        \(fetchOutput)
        """
}
