// The help of `convoy fetch`: what is sent again, and where.

extension HelpText {
    static let fetchRepeating = """
        Retries and redirects: what may work a second time is sent again: lost and refused connections, time-outs, and
        the answers 408, 425, 429, 500, 502, 503 and 504. A retry continues what the attempt before it has left. The wait
        before retry 1, 2, 3... is a random part of 0.5, 1, 2... seconds, of 30 at most; after the answer's Retry-After if
        it has one, of which 5 minutes at most are waited. A retry that could only come after the deadline is not waited
        for: the last failure counts.
        Up to 20 redirects are followed, never from https to http; the file's name comes from the URL that was given. When
        a redirect leads to another origin (scheme, host or port), the fields of --header stay behind, since any of them
        may be a key; only Accept, Accept-*, Cache-Control, Pragma, Range and User-Agent go along.
        """
}
