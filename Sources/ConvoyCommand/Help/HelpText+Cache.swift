// The help of `convoy cache`.

extension HelpText {
    static let cache = """
        Usage: \(CacheVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Shows and removes the responses that convoy fetch --cache and convoy run
        --cache have stored. A fresh response is used without the network; a stale one
        is validated by a conditional request (RFC 9111). These commands send no
        requests.

        \(TextLayout.terms(CacheVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy fetch --cache https://example.com/feed.xml
          convoy --cache --cache-policy only-cache -o - https://example.com/feed.xml
          convoy cache list 'https://example.com/*'
          convoy cache why https://example.com/feed.xml
          convoy cache remove 'example.com/private/*'

        \(Subcommand.cache.options.helpByGroup)

        A PATTERN is a URL with or without its scheme; * matches any characters. list
        and remove fail if no stored response matches.
        --request, --header, --head, --range and --cache-policy describe the request
        that why explains.

        The policies of --cache-policy:
          standard      a fresh response is used, a stale one is validated
          reload        the request is sent, and its response is stored
          revalidate    every stored response is validated, even a fresh one
          prefer-cache  a stored response is used, however old it is
          only-cache    the same; without one the request fails and is not sent
          no-store      the cache is neither read nor written

        With a cache, -v, the lines of files, %{cache} of -w, the "cache" of --json and
        a column of the report show how it was used:
          hit          a fresh response was used, and no request was sent
          stale        a stale response was used, as the response or the policy allows
          revalidated  the server confirmed a stored response (304)
          miss         the response came from the server
          bypass       the cache was not used

        Only this user can read the directory. Values of secret header fields and
        parameters are not shown. --cache-size is a strict limit: the response that was
        unused for the longest time is removed first. A response of more than an eighth
        of the limit is not stored.

        Exit status:
          0    success
          1    no cache exists, no stored response matches, or one was not removed
          2    usage error
          141  standard output was closed
        """
}
