// The help of `convoy report`.

extension HelpText {
    static let report = """
        Usage: convoy report EVENTS.jsonl... --html FILE

        Joins the events that runs have written with --json, those of shards for
        example, and shows them on one page: a waterfall, a table to sort and filter
        with failures first, and the critical path, the longest chain of dependent
        requests. The page needs no network. The file of a killed run is read up to its
        end; a request that another run has continued counts once.

        With --compare the page shows two files beside each other, the earlier first:
        their statistics and times, each host, name and status, the requests that fail
        in the second only, and those that slowed down most.

        Examples:
          convoy run --json api.http > a.jsonl
          convoy report a.jsonl b.jsonl --html report.html
          convoy report --compare monday.jsonl tuesday.jsonl --html both.html

        \(Subcommand.report.options.helpByGroup)

        The page has no passwords and keys, and only the header fields of failed
        responses. URLs are shown without user names, and without the values of
        parameters whose names suggest a secret. Its title omits option values that may
        be secrets.

        Exit status:
          0    the summary was printed, and the page was written
          1    the page could not be written
          2    usage error, or a file that cannot be read; no page was written
          141  standard output was closed
        """
}
