// The help topics lists, names, retries and signals.

extension HelpText {
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
}
