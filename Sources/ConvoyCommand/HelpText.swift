// The help of the command; each subcommand's own is in its folder.

/// What `--help` prints.
enum HelpText {
    static let tool = """
        convoy \(Tool.version): HTTP requests in convoy

        Usage:
          convoy fetch [options] URL...   download, many at a time; continue what was interrupted
          convoy demo                     show a batch, a chain and a continued download against a server of its own
          convoy completions SHELL        print a completion script for bash, zsh or fish
          convoy --version                print the version
          convoy --help                   print this; each command has a help of its own: convoy fetch --help

        Exit status:
          0    everything succeeded
          1    something failed
          2    usage error; nothing was run
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed

        Examples:
          convoy fetch https://example.com/a.zip https://example.com/b.zip
          convoy fetch -i urls.txt -o downloads -j 16
          convoy demo
        """
}
