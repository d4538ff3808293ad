// Options about limits and output.
import Foundation

extension Option {
    static let limitOptions: [Option] = [
        Option(
            "jobs", short: "j", value: .text("N"), .limits, for: .sending,
            summary: "the maximum of concurrent requests",
            detail:
                "the maximum of concurrent requests, \(FetchOptions.jobsRange.text) (default \(FetchOptions.defaultJobs)); fewer "
                + "if ulimit -n or -v is too low",
            aliases: ["parallel-max"]
        ) {
            do throws(UsageError) { $0.fetch.jobs = try OptionValues.number($1, in: FetchOptions.jobsRange) } catch {
                let isNumber = Int($1) != nil
                throw UsageError(error.message + (isNumber ? "" : "; curl's -j is not needed: remove it"))
            }
        },
        Option(
            "per-host", value: .text("N"), .limits, for: .sending,
            summary: "the maximum of concurrent requests to one host",
            detail: "the maximum of concurrent requests to one host (default \(FetchOptions.defaultPerHost))"
        ) { $0.fetch.perHost = try OptionValues.number($1, in: FetchOptions.jobsRange) },
        Option(
            "segments", value: .text("N"), .limits, summary: "fetch N ranges of one file at once",
            detail:
                "fetch N ranges of one file at once, \(FetchOptions.segmentsRange.text) (default 1), for files of 2 MiB or more; "
                + "--jobs and --per-host then limit files"
        ) { $0.fetch.segments = try OptionValues.number($1, in: FetchOptions.segmentsRange) },
        Option(
            "retries", value: .text("N"), .limits, for: .sending, summary: "attempts after the first",
            detail:
                "attempts after the first, \(FetchOptions.retriesRange.text) (default \(FetchOptions.defaultRetries)), of requests that may be sent "
                + "again",
            aliases: ["retry"]
        ) {
            $0.fetch.retries = try OptionValues.number($1, in: FetchOptions.retriesRange)
            $0.queue.hasRetries = true
        },
        Option(
            "connect-timeout", value: .text("SEC"), .limits, for: .sending, summary: "seconds for a connection",
            detail: "seconds for each connection, name lookup and TLS included (default 30)"
        ) { $0.fetch.connection.connectTimeout = try OptionValues.seconds($1) },
        Option(
            "max-time", short: "m", value: .text("SEC"), .limits, for: .sending, summary: "seconds for each attempt",
            detail: "seconds for each attempt of a URL, its body included (default: no limit)"
        ) { $0.fetch.maxTime = try OptionValues.seconds($1) },
        Option(
            "deadline", value: .text("SEC"), .limits, for: [.fetch, .run], summary: "seconds for each URL",
            detail: "seconds for each URL from its start, retries and all waiting included (default: no limit)"
        ) { $0.fetch.deadline = try OptionValues.seconds($1) },
        Option(
            "max-size", value: .text("BYTES"), .limits, for: .sending, summary: "the maximum size of a body in bytes",
            detail: "the maximum size of a body in bytes, such as 2.5M; a larger body fails (default: no limit)",
            aliases: ["max-filesize"]
        ) { $0.fetch.maxBytes = try OptionValues.bytes($1, "bytes") },
        Option(
            "rate", value: .text("BYTES"), .limits, for: .sending, summary: "bytes per second for the complete run",
            detail: "bytes per second for the complete run, such as 500k, 2.5M, 1G or 1MiB (default: no limit)",
            aliases: ["limit-rate", "max-overall-download-limit"]
        ) {
            do throws(UsageError) { $0.fetch.maxRate = try OptionValues.bytes($1) } catch {
                throw UsageError(error.message + ($1.contains("/") ? "; curl's --rate counts requests" : ""))
            }
        },
        Option(
            "min-speed", short: "Y", value: .text("BYTES"), .limits,
            summary: "the minimum speed in bytes per second",
            detail:
                "the minimum speed in bytes per second: an attempt that is slower for --speed-time fails (default: none)",
            aliases: ["speed-limit", "lowest-speed-limit"]
        ) { $0.fetch.minimumSpeed = try OptionValues.bytes($1) },
        Option(
            "speed-time", short: "y", value: .text("SEC"), .limits,
            summary: "the time over which --min-speed is measured",
            detail: "seconds over which --min-speed is measured (default 30)"
        ) {
            $0.fetch.minimumSpeedWindow = try OptionValues.seconds($1)
            $0.fetch.minimumSpeed = $0.fetch.minimumSpeed ?? 1
        },
    ]

    /// The verbs with `--json`; `queue export` always prints JSON.
    private static let reporting = Set(
        [.fetch, .run] + (Subcommand.queue.verbs + Subcommand.cache.verbs).filter { $0 != .queue(.export) })

    static let outputOptions: [Option] = [
        Option(
            "verbose", short: "v", .output, for: .sending, summary: "print requests, responses and connections",
            detail: "print requests, responses and connections on standard error, without passwords"
        ) { $0.fetch.isVerbose = true },
        Option(
            "write-out", short: "w", value: .text("FORMAT"), .output, summary: "print this after each URL",
            detail: "print FORMAT after each URL, with curl's variables, such as %{http_code} and %{time_total}. URLs "
                + "and %{errormsg} are printed without secrets; header fields are printed as received"
        ) { $0.fetch.writeOut = try WriteOut($1) },
        Option(
            "har", value: .file("FILE"), .output, for: .sending, summary: "write an archive of the requests",
            detail: "write all requests and the header fields of their responses to FILE, as browsers do (HAR 1.2)"
        ) { $0.fetch.archive = $1 },
        Option(
            "report", value: .file("FILE"), .output, for: [.fetch, .run],
            summary: "write a page that shows every request",
            detail: "write a page to FILE, for browsers: a waterfall and a table of all requests, without passwords"
        ) { $0.fetch.report = $1 },
        Option(
            "quiet", .output, for: [.fetch, .run, .queue(.add), .queue(.run)], summary: "print errors only",
            aliases: ["no-verbose"]
        ) { $0.fetch.isQuiet = true },
        Option(
            "json", .output, for: reporting,
            summary: "print one JSON object a line",
            detail: "print one JSON object a line on standard output; see convoy help json"
        ) { $0.fetch.isJSON = true },
    ]
}
