// The help of `convoy queue`.

extension HelpText {
    static let queue = """
        Usage: \(QueueVerb.allCases.map(\.usage).joined(separator: "\n       "))

        Keeps requests in a database until they have been answered: through crashes,
        reboots and days without a network. Each is sent at least once, every time with
        the same Idempotency-Key, so that a server that knows it carries it out once.

        \(TextLayout.terms(QueueVerb.allCases.map { ($0.rawValue, $0.summary) }))

        Examples:
          convoy queue add --db jobs.db --id order-17 --json-body @order.json URL
          convoy queue add --db jobs.db --after order-17 -P invoices -i invoices.txt
          convoy queue run --db jobs.db --watch -H "Authorization: Bearer $TOKEN"
          convoy queue list --db jobs.db --state dead
          convoy queue retry --db jobs.db --all

        \(Subcommand.queue.options.helpByGroup)

        Several processes may run one queue; on PostgreSQL, on several machines.
        Secrets are in no database: add refuses Authorization, Cookie and passwords in
        URLs. run takes them (-H, -u, -b) and sends them along with every job, wherever
        that goes: a queue that others add to is none for them. run waits for dates,
        and between attempts, too. An answer is dropped unless -o or -P say where it
        goes. A job is done when its answer has a status of 2xx; it is a dead letter
        when it has failed for good, has expired, or --retries are used up (3; with
        --watch 1,000, which are days). SIGTERM lets requests under way end, for 8
        seconds; what has not ended then, or at another signal, is given back.

        Exit status:
          0    it was done; of run: no job became a dead letter
          1    some jobs became dead letters, lines of a list were broken, or the
               database cannot be used
          2    usage error, or a job that cannot be kept
          129, 130, 143  a signal ended it
          141  standard output was closed
        """
}
