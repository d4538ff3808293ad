import Foundation

extension Option {
    static let limitOptions: [Option] = [
        Option(
            "-j, --jobs N", .limits, for: .sending, "the maximum of concurrent requests",
            more: ", \(FetchOptions.jobsRange.text) (default \(FetchOptions.defaultJobs)); fewer if ulimit -n or -v "
                + "is too low",
            aliases: ["parallel-max"]
        ) {
            do throws(UsageError) { $0.fetch.jobs = try OptionValues.number($1, in: FetchOptions.jobsRange) } catch {
                let isNumber = Int($1) != nil
                throw UsageError(error.message + (isNumber ? "" : "; curl's -j is not needed: remove it"))
            }
        },
        Option(
            "--per-host N", .limits, for: .sending, "the maximum of concurrent requests to one host",
            more: " (default \(FetchOptions.defaultPerHost))"
        ) { $0.fetch.perHost = try OptionValues.number($1, in: FetchOptions.jobsRange) },
        Option(
            "--segments N", .limits, "fetch N ranges of one file at once",
            more: ", \(FetchOptions.segmentsRange.text) (default 1), for files of 2 MiB or more; --jobs and "
                + "--per-host then limit files"
        ) { $0.fetch.segments = try OptionValues.number($1, in: FetchOptions.segmentsRange) },
        Option(
            "--retries N", .limits, for: .sending, "attempts after the first",
            more: ", \(FetchOptions.retriesRange.text) (default \(FetchOptions.defaultRetries)), of requests that may "
                + "be sent again; a download counts from the last attempt with progress",
            aliases: ["retry"]
        ) {
            $0.fetch.retries = try OptionValues.number($1, in: FetchOptions.retriesRange)
            $0.queue.hasRetries = true
        },
        Option(
            "--connect-timeout SEC", .limits, for: .sending, "seconds for a connection",
            detail: "seconds for each connection, name lookup and TLS included (default 30)"
        ) { $0.fetch.connection.connectTimeout = try OptionValues.seconds($1) },
        Option(
            "-m, --max-time SEC", .limits, for: .sending, "seconds for each attempt",
            more: " of a URL, its body included (default: no limit, but a server may be silent for at most 60 seconds)"
        ) { $0.fetch.maxTime = try OptionValues.seconds($1) },
        Option(
            "--deadline SEC", .limits, for: [.fetch, .run], "seconds for each URL",
            more: " from its start, retries and all waiting included (default: no limit)"
        ) { $0.fetch.deadline = try OptionValues.seconds($1) },
        Option(
            "--max-size BYTES", .limits, for: .sending, "the maximum size of a body in bytes",
            more: ", such as 2.5M; a larger body fails (default: no limit)", aliases: ["max-filesize"]
        ) { $0.fetch.maxBytes = try OptionValues.bytes($1, "bytes") },
        Option(
            "--rate BYTES", .limits, for: .sending, "bytes per second for the complete run",
            more: ", such as 500k, 2.5M, 1G or 1MiB (default: no limit)",
            aliases: ["limit-rate", "max-overall-download-limit"]
        ) {
            do throws(UsageError) { $0.fetch.maxRate = try OptionValues.bytes($1) } catch {
                throw UsageError(error.message + ($1.contains("/") ? "; curl's --rate counts requests" : ""))
            }
        },
        Option(
            "-Y, --min-speed BYTES", .limits, "the minimum speed in bytes per second",
            more: ": an attempt that is slower for --speed-time fails (default: none)",
            aliases: ["speed-limit", "lowest-speed-limit"]
        ) { $0.fetch.minimumSpeed = try OptionValues.bytes($1) },
        Option(
            "-y, --speed-time SEC", .limits, "the time over which --min-speed is measured",
            detail: "seconds over which --min-speed is measured (default 30)"
        ) {
            $0.fetch.minimumSpeedWindow = try OptionValues.seconds($1)
            $0.fetch.minimumSpeed = $0.fetch.minimumSpeed ?? 1
        },
    ]

    private static let reporting = Set(
        [.fetch, .run] + (Subcommand.queue.verbs + Subcommand.cache.verbs).filter { $0 != .queue(.export) })

    static let outputOptions: [Option] = [
        .flag(
            "-v, --verbose", .output, for: .sending, "print requests, responses and connections",
            more: " on standard error, without passwords"
        ) { $0.fetch.isVerbose = true },
        Option(
            "-w, --write-out FORMAT", takes: .textOrFile, .output, "print this after each URL",
            detail: "print FORMAT after each URL, with curl's variables, such as %{http_code} and %{time_total}. URLs "
                + "and %{errormsg} are printed without secrets; header fields are printed as received",
            mayBeEmpty: true, path: .afterAt
        ) { $0.fetch.writeOut = try WriteOut($1) },
        Option(
            "--har FILE", takes: .output, .output, for: .sending, "write an archive of the requests",
            detail: "write all requests and the header fields of their responses to FILE, as browsers do (HAR 1.2)"
        ) { $0.fetch.archive = $1 },
        Option(
            "--report FILE", takes: .output, .output, for: [.fetch, .run], "write a page that shows every request",
            detail: "write a page to FILE, for browsers: a waterfall and a table of all requests, without passwords"
        ) { $0.fetch.report = $1 },
        .flag(
            "--quiet", .output, for: [.fetch, .run, .queue(.add), .queue(.run)], "print errors only",
            aliases: ["no-verbose"]
        ) { $0.fetch.isQuiet = true },
        .flag(
            "--json", .output, for: reporting, "print one JSON object a line",
            more: " on standard output; see convoy help json"
        ) { $0.fetch.isJSON = true },
    ]
}
