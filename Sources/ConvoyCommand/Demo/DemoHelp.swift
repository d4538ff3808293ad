// The help of `convoy demo`.

extension HelpText {
    static let demo = """
        Usage: convoy demo

        Starts an HTTP server on the loopback address and shows three things against it, live on a terminal and as plain
        lines elsewhere. It ends by itself after some seconds and leaves nothing behind.
          batch     60 files of many sizes, at most 6 at once, some slow, one that fails; results in input order
          chain     log in, read the user with the token, read the user's list; and a chain whose first link fails
          download  cancelled at 40 %; then the rest is asked for, and every byte verified
        Each ends with one line that says what was measured; nothing is scripted to succeed.

        Options:
          -h, --help  print this

        Exit status:
          0    all three did what they should
          1    one did not; its line says what was wrong
          2    usage error
          129, 130, 143   stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed

        Example:
          convoy demo && echo works here
        """
}
