// Topics: lists, names, retries, signals.

extension HelpText {
    static let names = """
        File names are the second column of a list, or the last part of the URL's path
        with its escapes decoded, without directories, leading dots and characters that
        do not show; "download" when nothing is left. The directories of a list's names
        are made where each is such a name, and left out else, as they all are with
        --no-directories. The second file of one name in a run becomes NAME-1.EXT. With
        --content-disposition the answer gives the names that the list does not give,
        made safe in the same way; two runs into one directory then keep two files. The
        name of -o NAME is taken as it is; where it is a link, what the link leads to
        is written. A link of any other name is replaced, and that is told. A device or
        a pipe is written to, and nothing is kept for the next run.

        Existing files (--existing):
          overwrite  replaced when the new one is complete; until then it stays
          fail       the URL fails with destinationExists, and nothing is sent
          rename     the new one becomes NAME-1.EXT, or the next number that is free
          skip       nothing is sent; a file that has changed on the server is not
                     noticed. Where the digest is known, a file that has another one
                     is fetched again
          updateIfChanged
                     the server is asked whether it has another version than the one
                     that was saved, and the file is replaced if so; a file that was
                     not saved this way, or was changed since, is fetched again. The
                     file gets the time that the server names
        The default is overwrite: after exit status 0 every file is what its server
        has. A name that a server proposed replaces nothing: with
        --content-disposition the default is rename, and skip saves no transfer, since
        the name comes with the answer. To run a long list again after an
        interruption, give skip: what is complete is left out, what is kept in part is
        continued either way.

        Files beside NAME while it is not complete:
          .NAME.convoy-part    what has been received
          .NAME.convoy-resume  what it is of: the server's entity tag or date, no URL
                               and no header field
          .NAME.convoy-version the version of the file that updateIfChanged asks by;
                               it stays
        The first two go when NAME is there. They stay after a failure, an
        interruption and even a crash, and the next run asks the server for the rest
        only, if that still is of the same version; otherwise it begins anew. Nothing
        is kept of what a server cannot continue; of less than 1 MiB a crash keeps
        nothing, and of a file in --segments up to 4 MiB are asked for again. Remove
        them if you do not want to continue. A part that another program writes to is
        thrown away, and the file fails. A part belongs to one run at a time: a second
        one fails with destinationInUse.
        """

    static let retries = """
        What may work a second time is sent again: lost and refused connections,
        time-outs, and the answers 408, 425, 429, 500, 502, 503 and 504; a POST is not.
        A retry continues what the attempt before it has left. The wait before retry
        1, 2, 3... is a random part of 0.5, 1, 2... seconds, of 30 at most; after the
        answer's Retry-After if it has one, of which 5 minutes at most are waited. A
        retry that could only come after the deadline is not waited for: the last
        failure counts.

        Up to 20 redirects are followed, never from https to http; the file's name
        comes from the URL that was given. When a redirect leads to another origin
        (scheme, host or port), passwords, cookies and the fields of --header stay
        behind, since any of them may be a key; only Accept, Accept-*, Cache-Control,
        Content-Type, Pragma, Range and User-Agent go along.
        """

    static let signals = """
        SIGINT (Ctrl-C), SIGTERM and SIGHUP, and standard output that is closed, cancel
        all requests; what has been received is kept, and the summary says how much. A
        second signal ends the run at once, as do 5 seconds in which it does not end by
        itself; parts are kept then too. SIGHUP is left alone under nohup.

        Exit status:
        \(exitStatuses)
        """

    static let lists = """
        A list (-i FILE, or -i - for standard input) is read as needed, however long.
        Blank lines and lines that begin with # are skipped; a broken line is reported
        by its number, counts as a failure, and the others run. By its first line a
        list is one of these:

        URLs, a line each, with a name and a digest behind tabs if you like:
          URL
          URL<TAB>NAME
          URL<TAB>NAME<TAB>DIGEST
        NAME may be empty, and DIGEST is sha256: or sha512: and its hexadecimal digits.

        JSON lines, an object each; all but url may be left out:
          {"url": "https://example.com/a", "name": "a.bin", "sha256": "9f86..."}

        SHA256SUMS or SHA512SUMS, with the place of the names given by --base URL:
          9f86d081...0a08  image.iso
          SHA256 (image.iso) = 9f86d081...0a08

        aria2's input file: URLs of one file with tabs between, and its options in
        lines that begin with a blank. out, checksum, header, referer and user-agent
        are understood, dir is an error, and what only makes a transfer faster or
        slower has no effect:
          https://example.com/a<TAB>https://mirror.example.com/a
            out=a.bin
            checksum=sha-256=9f86d081...0a08

        Metalink 4 (RFC 5854): the URLs of each file by their priority, and its digest.

        Of several URLs the first is asked, and where it fails the others, one after
        the other; passwords, cookies and fields that may be keys are for the first
        only. With --segments and a digest they serve parts as --mirror does.

        --save-failed writes such a list: what failed, was cancelled or was not come
        to, and behind that the broken lines, each under a remark of what is wrong
        with it. What a run that was stopped has not read is not there; that is told.
        """
}
