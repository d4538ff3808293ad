// The help of `convoy fetch`: lists, names, and what happens to files.

extension HelpText {
    static let fetchFiles = """
        Lists: a line is URL, URL<TAB>NAME or URL<TAB>NAME<TAB>DIGEST; NAME may be empty, and DIGEST is sha256: or sha512:
        and its hexadecimal digits. Blank lines and lines that begin with # are skipped; a broken line is reported by its
        number, counts as a failure, and the others run. A list is read as needed, however long.

        File names are the second column of the list, or the last part of the URL's path with its escapes decoded,
        without directories, leading dots and characters that do not show; "download" when nothing is left. The second
        file of one name in a run becomes NAME-1.EXT. With --content-disposition the answer gives the names that the list
        does not give, made safe in the same way; two runs into one directory then keep two files.

        Existing files:
          overwrite  replaced when the new one is complete; until then it stays as it was
          fail       the URL fails with destinationExists, and nothing is sent
          rename     the new one becomes NAME-1.EXT, or the next number that is free
          skip       nothing is sent; a file that has changed on the server is not noticed. Where the digest is known, a
                     file that has another one is fetched again
          updateIfChanged
                     the server is asked whether it has another version than the one that was saved, and the file is
                     replaced if so; a file that was not saved this way, or was changed since, is fetched again. The file
                     gets the time that the server names
        The default is overwrite: after exit status 0 every file is what its server has, also where a file of that name
        was something else, or has changed. A name that a server proposed replaces nothing: with --content-disposition
        the default is rename, and skip saves no transfer, since the name comes with the answer. To run a long list
        again after an interruption, give skip: what is complete is left out, what is kept in part is continued either
        way.

        Files beside NAME while it is not complete:
          .NAME.convoy-part    what has been received
          .NAME.convoy-resume  what it is of: the server's entity tag or date, no URL and no header field
          .NAME.convoy-version the version of the file that --existing updateIfChanged asks by; it stays
        The first two go when NAME is there. They stay after a failure, an interruption and even a crash, and the next
        run asks the server for the rest only, if that still is of the same version; otherwise it begins anew. Nothing
        is kept of what a server cannot continue; of less than 1 MiB a crash keeps nothing, and of a file in --segments
        up to 4 MiB are asked for again. Remove them if you do not want to continue. A part that another program writes
        to is thrown away, and the file fails. A part belongs to one run at a time: a second one fails with
        destinationInUse.
        """
}
