// The options of `convoy fetch`. The parser, the help, the man page and the completions use this table.
import Convoy
import Foundation

extension FetchOptions {
    /// All options, in the order of the help.
    static let table: [Option] =
        fileOptions + listOptions + requestOptions + credentialOptions + connectionOptions + cacheOptions
        + limitOptions + outputOptions + curlOptions + [.url, .config, .noConfig, .help]

    private static let fileOptions: [Option] = [
        Option(
            "output", short: "o", value: .file("NAME"), .files, summary: "the file of one URL, a directory, or -",
            detail:
                "the file of one URL; - is standard output, a device or a pipe gets the bodies, and a directory that "
                + "is there is where files go; several are for the URLs in their order, and #1 is what the first {} or "
                + "[] of a URL stands for",
            isRepeatable: true
        ) { $0.outputs.append(.file($1)) },
        Option(
            "directory-prefix", short: "P", value: .directory("DIR"), .files, summary: "the directory where files go",
            detail: "where files go; it must exist (default: the current directory)", aliases: ["output-dir"]
        ) { $0.setDirectory($1) },
        Option(
            "no-directories", .files, summary: "put the files of a list into one directory",
            detail: "put files whose names in a list have directories into one; else these are made"
        ) { options, _ in options.isFlat = true },
        Option(
            "content-disposition", short: "J", .files, summary: "name files as the server proposes",
            detail: "name files as the server proposes, otherwise as the URL that answered; see convoy help names",
            aliases: ["remote-header-name"]
        ) { options, _ in options.takesProposedNames = true },
        Option(
            "existing", value: .choice("WHAT", among: ExistingFile.allCases.map(\.rawValue)), .files,
            summary: "what happens when a file already exists",
            detail: "when a file already exists: overwrite (the default), fail, rename, skip or updateIfChanged; "
                + "see convoy help names"
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: ExistingFile.allCases.map(\.rawValue))
            options.existing = ExistingFile(rawValue: word)
        },
        Option(
            "newer", short: "z", value: .file("DATE|FILE"), .files, summary: "only files newer than a date or a file",
            detail:
                "fetch only what has changed since DATE, or since FILE was fetched; what has not is skipped, and a new "
                + "file gets the time that the server names",
            aliases: ["time-cond"]
        ) { options, value throws(UsageError) in
            options.sending.newer = try NewerThan(value)
            options.existing = options.existing ?? .updateIfChanged
        },
        Option(
            "range", short: "r", value: .text("BYTES"), .files, summary: "only these bytes, such as 0-499",
            detail: "only these bytes of the body, such as 0-499, 500- or -500"
        ) { options, value throws(UsageError) in options.sending.range = try SendingOptions.range(value) },
        digestOption(.sha256, "the SHA-256 digest of the file", "64 digits"),
        digestOption(.sha512, "the SHA-512 digest of the file", "128 digits"),
        Option(
            "mirror", value: .text("URL"), .files, summary: "another place of the file",
            detail: "another place of the same file, for parts that are slow or fail; needs --sha256 or --sha512",
            isRepeatable: true
        ) { options, value throws(UsageError) in options.mirrors.append(try InputLine.url(value)) },
        Option(
            "discard", .files, summary: "receive the bodies and drop them",
            detail: "receive the bodies and drop them, for measuring; nothing is verified"
        ) { options, _ in options.destination = .nowhere },
    ]

    private static func digestOption(
        _ algorithm: FileDigest.Algorithm, _ summary: String, _ digits: String
    ) -> Option {
        Option(
            algorithm.rawValue, value: .text("HEX"), .files, summary: summary,
            detail: "\(summary), \(digits), for a single URL; a file with another one fails and is thrown away"
        ) { options, value throws(UsageError) in
            let digest: FileDigest = algorithm == .sha256 ? .sha256(value) : .sha512(value)
            if let other = options.digest, other.algorithm != algorithm {
                throw UsageError("and --\(other.algorithm.rawValue) exclude each other; give one of them")
            }
            if let defect = digest.defect { throw UsageError(": \(defect)") }
            options.digest = digest
        }
    }

    private static let listOptions: [Option] = [
        Option(
            "input", short: "i", value: .file("FILE"), .lists, summary: "read URLs from a file, one a line",
            detail: "read URLs from FILE, - for standard input; a line each, or SHA256SUMS, Metalink, JSON lines or "
                + "aria2's format; see convoy help lists",
            aliases: ["input-file"]
        ) { options, value throws(UsageError) in
            guard !value.contains("://"), value == "-" || !value.hasPrefix("-") else {
                throw UsageError("takes a file with URLs in it; curl's -i is --include")
            }
            options.input = value == "-" ? .standardInput : .file(value)
        },
        Option(
            "base", value: .text("URL"), .lists, summary: "where the names in a list are",
            detail: "where the names in a list are, of SHA256SUMS for example"
        ) { options, value throws(UsageError) in options.base = try InputLine.url(value) },
        Option(
            "shard", value: .text("I/N"), .lists, summary: "take one of N parts of a list",
            detail:
                "of the lines of a list, take those of part I of N, which follow from the lines themselves: N machines "
                + "that each take another part take every line once. auto asks Slurm for both, auto/N Kubernetes "
                + "(JOB_COMPLETION_INDEX) or GNU parallel (PARALLEL_SEQ) for I"
        ) { options, value throws(UsageError) in
            options.shard = try Shard(value, environment: ProcessInfo.processInfo.environment)
        },
        Option(
            "save-failed", value: .file("FILE"), .lists, summary: "write a list of what failed",
            detail: "write what failed or was cancelled to FILE, a list for -i, broken lines too"
        ) { $0.failedList = $1 },
    ]

    private static let limitOptions: [Option] = [
        Option(
            "jobs", short: "j", value: .text("N"), .limits, summary: "requests in flight at once",
            detail:
                "requests in flight at once, \(jobsRange.text) (default \(defaultJobs)); fewer where ulimit -n or -v "
                + "is too low",
            aliases: ["parallel-max"]
        ) { options, value throws(UsageError) in
            do throws(UsageError) { options.jobs = try OptionValues.number(value, in: jobsRange) } catch {
                let isNumber = Int(value) != nil
                throw UsageError(error.message + (isNumber ? "" : "; curl's -j is not needed: leave it out"))
            }
        },
        Option(
            "per-host", value: .text("N"), .limits, summary: "requests in flight to one host",
            detail: "of them to one host (default \(defaultPerHost))"
        ) { options, value throws(UsageError) in options.perHost = try OptionValues.number(value, in: jobsRange) },
        Option(
            "segments", value: .text("N"), .limits, summary: "ranges of one file fetched at once",
            detail: "ranges of one file fetched at once, \(segmentsRange.text) (default 1), of files of 2 MiB or more; "
                + "--jobs and --per-host count files then"
        ) { options, value throws(UsageError) in options.segments = try OptionValues.number(value, in: segmentsRange) },
        Option(
            "retries", value: .text("N"), .limits, summary: "attempts after the first",
            detail: "attempts after the first, \(retriesRange.text) (default \(defaultRetries)), of what may be sent "
                + "again",
            aliases: ["retry"]
        ) { options, value throws(UsageError) in options.retries = try OptionValues.number(value, in: retriesRange) },
        Option(
            "connect-timeout", value: .text("SEC"), .limits, summary: "seconds for a connection",
            detail: "seconds for each connection, name lookup and TLS included (default 30)"
        ) { options, value throws(UsageError) in options.connection.connectTimeout = try OptionValues.seconds(value) },
        Option(
            "max-time", short: "m", value: .text("SEC"), .limits, summary: "seconds for each attempt",
            detail: "seconds for each attempt of a URL, its body included (default: no limit)"
        ) { options, value throws(UsageError) in options.maxTime = try OptionValues.seconds(value) },
        Option(
            "deadline", value: .text("SEC"), .limits, summary: "seconds for each URL",
            detail: "seconds for each URL from its turn on, retries and all waiting included (default: no limit)"
        ) { options, value throws(UsageError) in options.deadline = try OptionValues.seconds(value) },
        Option(
            "max-size", value: .text("BYTES"), .limits, summary: "bytes that a body may have",
            detail: "bytes that a body may have, such as 2.5M; a larger one fails (default: no limit)",
            aliases: ["max-filesize"]
        ) { options, value throws(UsageError) in options.maxBytes = try OptionValues.bytes(value, "bytes") },
        Option(
            "rate", value: .text("BYTES"), .limits, summary: "bytes per second for the complete run",
            detail: "bytes per second of all together, such as 500k, 2.5M, 1G or 1MiB (default: no limit)",
            aliases: ["limit-rate", "max-overall-download-limit"]
        ) { options, value throws(UsageError) in
            do throws(UsageError) { options.maxRate = try OptionValues.bytes(value) } catch {
                throw UsageError(error.message + (value.contains("/") ? "; curl's --rate counts requests" : ""))
            }
        },
        Option(
            "min-speed", short: "Y", value: .text("BYTES"), .limits,
            summary: "bytes per second that are too slow below",
            detail: "bytes per second: an attempt that is slower over --speed-time has failed (default: none)",
            aliases: ["speed-limit", "lowest-speed-limit"]
        ) { options, value throws(UsageError) in options.minimumSpeed = try OptionValues.bytes(value) },
        Option(
            "speed-time", short: "y", value: .text("SEC"), .limits, summary: "seconds over which a speed counts",
            detail: "seconds over which --min-speed counts (default 30)"
        ) { options, value throws(UsageError) in
            options.minimumSpeedWindow = try OptionValues.seconds(value)
            options.minimumSpeed = options.minimumSpeed ?? 1
        },
    ]
}

extension ClosedRange<Int> {
    /// The range in the form of the help.
    fileprivate var text: String { "\(lowerBound) to \(upperBound)" }
}
