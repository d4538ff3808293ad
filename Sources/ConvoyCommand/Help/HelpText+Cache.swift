// The help of `convoy cache`.

extension HelpText {
    static let cache = """
        Usage: \(CacheVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Looks at the responses that convoy fetch --cache and convoy run --cache store,
        and removes them. A fresh response answers a request without the network; a
        stale one is validated by a conditional request (RFC 9111). Nothing here sends
        anything.

        \(TextLayout.terms(CacheVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy fetch --cache https://example.com/feed.xml
          convoy --cache --cache-policy only-cache -o - https://example.com/feed.xml
          convoy cache list 'https://example.com/*'
          convoy cache why https://example.com/feed.xml
          convoy cache remove 'example.com/private/*'

        \(Subcommand.cache.options.helpByGroup)

        A PATTERN is a URL, or one in which * stands for any characters, with its
        scheme or without it. --request, --header, --head, --range and --cache-policy
        describe the request that why explains.

        The policies of --cache-policy:
          standard      a fresh response is the answer, a stale one is validated
          reload        the server answers, and its answer is stored
          revalidate    a stored response is validated, a fresh one too
          prefer-cache  a stored response is the answer, however old
          only-cache    the same; without one nothing is sent, and the request fails
          no-store      nothing is looked up, and nothing is stored

        With a cache, -v, the lines of files, %{cache} of -w, the "cache" of --json and
        the column of a report say what became of a request:
          hit          a fresh response was the answer, and nothing was sent
          stale        a stale one was the answer, as it or the policy allows
          revalidated  the server has confirmed a stored response (304)
          miss         the server has answered
          bypass       the cache had no part in it

        Responses are in the directory for the user alone. Values of secret header
        fields and parameters are not shown. --cache-size is a strict limit: what was
        not used for longest goes first, and a response of more than an eighth of it is
        not stored.

        Exit status:
          0    it was done
          1    there is no cache, no stored response matches, or one was not removed
          2    usage error
          141  standard output was closed
        """
}
