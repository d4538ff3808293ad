// The help of `convoy queue`.

extension HelpText {
    static let queue = """
        Usage: \(QueueVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Keeps requests in a database until they are done: through crashes, reboots and
        days without a network. Each is sent at least once, every time with the same
        Idempotency-Key, so that a server that supports the field acts on it once.

        \(TextLayout.terms(QueueVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy queue add --db jobs.db --id order-17 --json-body @order.json URL
          convoy queue add --db jobs.db --after order-17 -P invoices -i invoices.txt
          convoy queue run --db jobs.db --watch -H "Authorization: Bearer $TOKEN"
          convoy queue list --db jobs.db --state dead
          convoy queue retry --db jobs.db --all

        \(Subcommand.queue.options.helpByGroup)

        Several processes may run one queue; on PostgreSQL, on several machines.
        The database stores no secrets: add refuses Authorization, Cookie and passwords
        in URLs. Give them to run (-H, -u, -b), which sends them with every job, to
        every server: do not use them with a queue to which others add jobs. run also
        waits for dates and between attempts. A response is discarded unless -o or -P
        name its file. A job is done when its response has the status 2xx. It becomes a
        dead letter when it fails for good, expires, or has used up its --retries (3;
        with --watch 1,000, which last for days). After SIGTERM, running requests have
        8 seconds to end; after that, or after another signal, their jobs return to the
        queue.

        Exit status:
          0    success; for run: no job became a dead letter
          1    some jobs became dead letters, lines of a list were invalid, or the
               database cannot be used
          2    usage error, or a job that cannot be stored
          129, 130, 143  stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM
          141  standard output was closed
        """
}
