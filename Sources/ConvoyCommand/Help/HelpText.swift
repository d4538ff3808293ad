// The help of the command and its subcommands. `HelpTopic` lists all topics.
import Convoy

/// The texts of `--help`.
enum HelpText {
    static let tool = """
        convoy \(Version.current): downloads, many at a time

        Examples:
          convoy https://example.com/a.zip https://example.com/b.zip
          convoy -P downloads -j 16 -i urls.txt
          convoy -o - -d name=value https://example.com/form
          convoy demo

        Usage:
        \(commands)
          convoy --version        print the version

        Exit status:
        \(exitStatuses)
        """

    private static var commands: String {
        let usages = [
            ("convoy [fetch] [options] URL...", Subcommand.fetch.summary + "; resume interrupted downloads"),
            ("convoy run FILE.http [NAME...]", Subcommand.run.summary),
            ("convoy report EVENTS.jsonl...", Subcommand.report.summary),
            ("convoy import FILE", "turn a HAR, a Postman collection or curl commands into an .http file"),
            ("convoy queue add|run|list...", Subcommand.queue.summary),
            ("convoy cache list|why...", Subcommand.cache.summary),
            ("convoy demo", Subcommand.demo.summary), ("convoy completions SHELL", Subcommand.completions.summary),
            ("convoy help WORD", "explain one of: " + HelpTopic.allCases.map(\.rawValue).joined(separator: ", ")),
        ]
        return TextLayout.terms(usages, column: 26)
    }

    static let exitStatuses = """
          0    everything succeeded, or was skipped
          1    something failed, or could not be written
          2    usage error, or limits too low for one request; no request was sent
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed
        """

    static let fetch = """
        Usage: convoy [fetch] [options] URL...
               convoy [fetch] [options] -i FILE

        Downloads every URL into a file. A file appears under its name only when it is
        complete; a partial file is kept, and the same command continues it.

        Examples:
          convoy https://example.com/a.zip https://example.com/b.zip
          convoy -P downloads -j 16 -i urls.txt
          convoy -P downloads -i urls.txt --existing skip    only missing files
          convoy -o - -H 'Accept: text/plain' https://example.com/page

        \(Subcommand.fetch.options.helpByGroup)

        Options and URLs may be mixed; "--" ends the options. A URL without a scheme is
        http for this machine, and otherwise https. {a,b}, [1-20], [001-100:5] and
        [a-z] in a URL are patterns for several URLs.

        A curl command works with convoy in place of curl, except for -i, -j, -P and
        --json, which have another meaning here. If such a command names no file, the
        body goes to standard output: with -s, -S, -f, -L, -G, -T, -D, --include or
        --fail-with-body, and when a body is sent. A status of 400 or more is always a
        failure, as with -f. A URL without such options is saved in a file, unless -o -
        is given.

        Standard output gets a line for each file, standard error the failures and the
        progress. The summary goes to standard error if standard output is a pipe, so
        that "convoy ... | tee log" logs only files.

        Environment:
        \(TextLayout.terms(variables, column: TextLayout.column))

        See also: convoy help lists, names, retries, json, signals
        """

    /// Environment variables and their meaning.
    static let variables = [
        ("http_proxy", "the proxy for http URLs, in the form of --proxy"),
        ("https_proxy, all_proxy", "the same for https URLs, and for both; also in capitals"),
        ("no_proxy", "hosts that are reached without a proxy, separated by commas"),
        ("CURL_CA_BUNDLE", "trusted certificates (PEM), instead of the system's"),
        ("SSL_CERT_FILE", "the same, if CURL_CA_BUNDLE is not set"),
        ("XDG_CACHE_HOME", "--cache uses its directory convoy/http (default: ~/.cache)"),
        ("NO_COLOR", "no colours, if it is set"),
    ]

    static let demo = """
        Usage: convoy demo

        Starts an HTTP server on the loopback address and shows three things with it,
        live on a terminal and as plain lines elsewhere. It ends by itself after some
        seconds and leaves no files.
          batch     60 files of many sizes, at most 6 at once, some slow, one that
                    fails; results in input order
          chain     log in, read the user with the token, read the user's list; and a
                    chain whose first link fails
          download  cancelled at 40 %; then the rest is requested, and every byte is
                    verified
        Each ends with one line of measurements; no result is scripted.

        Options:
          -h, --help  print this

        Exit status:
          0    all three succeeded
          1    at least one failed; its line says why
          2    usage error
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed

        Example:
          convoy demo && echo works here
        """

    static let completions = """
        Usage: convoy completions bash|zsh|fish

        Prints a script that completes commands, options and their values in a shell:
        files after --input, directories after --directory-prefix, the choices of
        --existing and --transport.

        Options:
          -h, --help  print this

        For this session:
          bash    source <(convoy completions bash)
          zsh     source <(convoy completions zsh)       after compinit
          fish    convoy completions fish | source

        Permanently:
          bash    convoy completions bash \\
                    > ~/.local/share/bash-completion/completions/convoy
          zsh     convoy completions zsh > DIR/_convoy   DIR is one of $fpath
          fish    convoy completions fish > ~/.config/fish/completions/convoy.fish

        Exit status:
          0    the script was printed
          2    usage error
          141  standard output was closed
        """

    static let help = """
        Usage: convoy help WORD

        Explains a command or a topic:
        \(TextLayout.terms(HelpTopic.allCases.map { ($0.rawValue, $0.summary) }, column: 15))

        Options:
          -h, --help  print this
        """
}
