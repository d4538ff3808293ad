// The options of `convoy run` alone.
import Convoy

extension Option {
    static let runOptions: [Option] = [
        Option(
            "env", value: .text("NAME"), .requests, for: [.run], summary: "the environment that variables are of",
            detail:
                "take variables from this environment of http-client.env.json and http-client.private.env.json, "
                + "beside the file, or above it in a repository; those of $shared count in any case, and those of an "
                + "environment that is the only one"
        ) { $0.run.environment = $1 },
        Option(
            "variable", value: .text("NAME=VALUE"), .requests, for: [.run], summary: "the value of a variable",
            detail: "the value of a variable, over what the file and the environments say", isRepeatable: true
        ) { try $0.run.setVariable($1) },
        Option(
            "each", value: .file("FILE"), .requests, for: [.run], summary: "send the requests for each row of a file",
            detail:
                "send the requests once for each row of FILE, a CSV file with the names of its columns in the first "
                + "line or a file with a JSON object on each line (- is standard input); {{column}} is the value of "
                + "a column. Rows are read as they are needed; they share no cookies, and none waits for another"
        ) { $0.run.each = $1 },
        Option(
            "repeat", value: .text("N"), .requests, for: [.run], summary: "send the requests so many times",
            detail: "send the requests N times, as many at the same time as --jobs lets; they share no cookies"
        ) { $0.run.repeats = try OptionValues.number($1, in: 1...1_000_000_000) },
        Option(
            "done", value: .file("FILE"), .requests, for: [.run], summary: "leave out the rows that are done",
            detail:
                "note in FILE each row whose requests have all ended well, and leave out the rows that are noted "
                + "there: a run that was interrupted goes on; several runs may share FILE"
        ) { $0.run.done = $1 },
        Option(
            "skip-scripts", .requests, for: [.run], summary: "leave scripts out",
            detail:
                "leave scripts out that are not read, and the requests that need what only scripts, prompts or XPath "
                + "give; the exit status is 1 where a request was left out"
        ) { $0.run.skipsScripts = true },
        Option(
            "directory-prefix", short: "P", value: .directory("DIR"), .files, for: [.run],
            summary: "the directory where answers go",
            detail: "where >> writes answers; nothing is written outside (default: the directory of the file)",
            aliases: ["output-dir"]
        ) { $0.run.directory = $1 },
        Option(
            "serial", .limits, for: [.run], summary: "one request after the other",
            detail: "send one request after the other, in the order of the file"
        ) { $0.run.wishes.isSerial = true },
        Option(
            "parallel-unsafe", .limits, for: [.run], summary: "keep no order among requests that change something",
            detail:
                "keep no order among requests that change something, POST for example, but what they need; else "
                + "each waits for all before it to its server, and those behind wait for it"
        ) { $0.run.wishes.mixesUnsafe = true },
        Option(
            "show", value: .choice("WHAT", among: RunOptions.Show.allCases.map(\.rawValue)), .output, for: [.run],
            summary: "print answers",
            detail:
                "print the head or the body of every answer, or both, on standard output: in order and colours on a "
                + "terminal, else as they are; lines and figures go to standard error"
        ) { $0.run.show = RunOptions.Show(rawValue: $1) },
        Option(
            "output", short: "o", value: .text("NAME=-"), .output, for: [.run],
            summary: "print the body of one request",
            detail: "print the body of the answer to the request NAME on standard output, as it is",
            isRepeatable: true
        ) { try $0.run.setPrinted($1) },
        Option(
            "dry-run", .output, for: [.run], summary: "print what would be sent",
            detail: "print what would be sent, and what waits for what; nothing is sent"
        ) { $0.run.isDryRun = true },
        Option(
            "junit", value: .file("FILE"), .output, for: [.run], summary: "write the outcomes as JUnit does",
            detail: "write the outcomes to FILE in the XML of JUnit, as pipelines read them"
        ) { $0.run.junit = $1 },
    ]
}
