// The options of `convoy run`. The parser, the help and the completions use this table.
import Convoy
import Foundation

extension RunOptions {
    /// An option of this command only, and its effect.
    struct OwnOption: Sendable {
        let option: Option
        let apply: @Sendable (inout RunOptions, String) throws(UsageError) -> Void
    }

    /// All options, in the order of the help.
    static let table: [Option] = own.map(\.option) + FetchOptions.table.filter { shared.contains($0.name) }

    /// The options of `convoy fetch` with the same meaning here.
    private static let shared: Set = [
        "proxy", "cacert", "insecure", "cert", "key", "resolve", "tls-min", "http1", "transport", "cache",
        "cache-policy", "cache-size", "jobs", "per-host",
        "retries", "connect-timeout", "max-time", "deadline", "max-size", "rate", "verbose", "har", "report", "quiet",
        "json", "shard", "help",
    ]

    static let own: [OwnOption] = [
        OwnOption(
            option: Option(
                "env", value: .text("NAME"), .requests, summary: "the environment that variables are of",
                detail:
                    "take variables from this environment of http-client.env.json and http-client.private.env.json, "
                    + "beside the file, or above it in a repository; those of $shared count in any case, and those of an "
                    + "environment that is the only one")
        ) { options, value in options.environment = value },
        OwnOption(
            option: Option(
                "variable", value: .text("NAME=VALUE"), .requests, summary: "the value of a variable",
                detail: "the value of a variable, over what the file and the environments say", isRepeatable: true)
        ) { options, value throws(UsageError) in try options.setVariable(value) },
        OwnOption(
            option: Option(
                "each", value: .file("FILE"), .requests, summary: "send the requests for each row of a file",
                detail:
                    "send the requests once for each row of FILE, a CSV file with the names of its columns in the first "
                    + "line or a file with a JSON object on each line (- is standard input); {{column}} is the value of "
                    + "a column. Rows are read as they are needed; they share no cookies, and none waits for another")
        ) { options, value in options.each = value },
        OwnOption(
            option: Option(
                "repeat", value: .text("N"), .requests, summary: "send the requests so many times",
                detail: "send the requests N times, as many at the same time as --jobs lets; they share no cookies")
        ) { options, value throws(UsageError) in
            options.repeats = try OptionValues.number(value, in: 1...1_000_000_000)
        },
        OwnOption(
            option: Option(
                "done", value: .file("FILE"), .requests, summary: "leave out the rows that are done",
                detail:
                    "note in FILE each row whose requests have all ended well, and leave out the rows that are noted "
                    + "there: a run that was interrupted goes on; several runs may share FILE")
        ) { options, value in options.done = value },
        OwnOption(
            option: Option(
                "skip-scripts", .requests, summary: "leave scripts out",
                detail:
                    "leave scripts out that are not read, and the requests that need what only scripts, prompts or XPath "
                    + "give; the exit status is 1 where a request was left out")
        ) { options, _ in options.skipsScripts = true },
        OwnOption(
            option: Option(
                "directory-prefix", short: "P", value: .directory("DIR"), .files,
                summary: "the directory where answers go",
                detail: "where >> writes answers; nothing is written outside (default: the directory of the file)",
                aliases: ["output-dir"])
        ) { options, value in options.directory = value },
        OwnOption(
            option: Option(
                "serial", .limits, summary: "one request after the other",
                detail: "send one request after the other, in the order of the file")
        ) { options, _ in options.wishes.isSerial = true },
        OwnOption(
            option: Option(
                "parallel-unsafe", .limits, summary: "keep no order among requests that change something",
                detail:
                    "keep no order among requests that change something, POST for example, but what they need; else "
                    + "each waits for all before it to its server, and those behind wait for it")
        ) { options, _ in options.wishes.mixesUnsafe = true },
        OwnOption(
            option: Option(
                "show", value: .choice("WHAT", among: RunOptions.Show.allCases.map(\.rawValue)), .output,
                summary: "print answers",
                detail:
                    "print the head or the body of every answer, or both, on standard output: in order and colours on a "
                    + "terminal, else as they are; lines and figures go to standard error")
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: RunOptions.Show.allCases.map(\.rawValue))
            options.show = RunOptions.Show(rawValue: word)
        },
        OwnOption(
            option: Option(
                "output", short: "o", value: .text("NAME=-"), .output, summary: "print the body of one request",
                detail: "print the body of the answer to the request NAME on standard output, as it is",
                isRepeatable: true)
        ) { options, value throws(UsageError) in try options.setPrinted(value) },
        OwnOption(
            option: Option(
                "dry-run", .output, summary: "print what would be sent",
                detail: "print what would be sent, and what waits for what; nothing is sent")
        ) { options, _ in options.isDryRun = true },
        OwnOption(
            option: Option(
                "junit", value: .file("FILE"), .output, summary: "write the outcomes as JUnit does",
                detail: "write the outcomes to FILE in the XML of JUnit, as pipelines read them")
        ) { options, value in options.junit = value },
    ]
}
