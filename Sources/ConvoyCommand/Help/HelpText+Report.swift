// The help of `convoy report`.

extension HelpText {
    static let report = """
        Usage: convoy report EVENTS.jsonl... --html FILE

        Joins the events that runs have written with --json, those of shards for
        example, and shows them on one page: a waterfall, a table to sort and filter,
        failures first, and the chain of requests that the run could not be shorter
        than. The page needs no network. Files of runs that were killed are read as far
        as they go; what another run has continued counts once.

        With --compare the page shows two files beside each other, the earlier first:
        their figures and times, each host, name and status, what fails in the second
        only, and what takes longest in comparison.

        Examples:
          convoy run --json api.http > a.jsonl
          convoy report a.jsonl b.jsonl --html report.html
          convoy report --compare monday.jsonl tuesday.jsonl --html both.html

        \(Subcommand.report.options.helpByGroup)

        The page has no passwords and keys, and header fields of refusals alone; URLs
        are shown without user names, and without the values of parameters whose names
        tell of a secret. In its title, values of options that may be secrets are left
        out.

        Exit status:
          0    the figures were printed, and the page was written
          1    it could not be written
          2    usage error, or a file that cannot be read; nothing was written
          141  standard output was closed
        """
}
