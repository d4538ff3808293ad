import Convoy

extension Option {
    static let runOptions: [Option] = [
        Option(
            "--env NAME", .requests, for: [.run], "the environment to read variables from",
            detail: "read variables from this environment of http-client.env.json and http-client.private.env.json, "
                + "beside the file or above it in a repository. $shared always applies. Without --env, the only "
                + "environment is used"
        ) { $0.run.environment = $1 },
        Option(
            "--variable NAME=VALUE", .requests, for: [.run], "the value of a variable",
            more: ", which overrides the file and the environments", isRepeatable: true
        ) { try $0.run.setVariable($1) },
        Option(
            "--each FILE", takes: .input, .requests, for: [.run], "send the requests for each row of a file",
            detail: "send the requests once for each row of FILE, a CSV file with the names of its columns in the "
                + "first line, a file with a JSON object on each line, or a JSON array of objects (- is standard input); "
                + "{{column}} is the value of a column. Rows are read as they are needed; they share no cookies, and run "
                + "independently"
        ) { $0.run.each = $1 },
        Option(
            "--repeat N", .requests, for: [.run], "send the requests N times",
            more: ", concurrently up to --jobs; the repetitions share no cookies"
        ) { $0.run.repeats = try OptionValues.number($1, in: 1...1_000_000_000) },
        Option(
            "--done FILE", takes: .file(.update), .requests, for: [.run], "skip rows that an earlier run has finished",
            detail: "record in FILE each row whose requests all succeeded, and skip the rows recorded there, so that "
                + "an interrupted run can continue; several runs may share FILE. No further row is started if FILE "
                + "cannot be written"
        ) { $0.run.done = $1 },
        .flag(
            "--skip-scripts", .requests, for: [.run], "skip scripts that convoy cannot run",
            more: ", and requests that need values from scripts, prompts or XPath; the exit status is 1 if a request "
                + "was skipped"
        ) { $0.run.skipsScripts = true },
        Option(
            "-P, --directory-prefix DIR", takes: .directory, .files, for: [.run], "the directory for response files",
            detail: "the directory in which >> writes responses, never outside (default: the directory of the file)",
            aliases: ["output-dir"]
        ) { $0.run.directory = $1 },
        .flag(
            "--serial", .limits, for: [.run], "one request after the other",
            detail: "send one request after the other, in the order of the file"
        ) { $0.run.wishes.isSerial = true },
        .flag(
            "--parallel-unsafe", .limits, for: [.run], "order requests only by their dependencies",
            more: "; by default a request that changes something, such as POST, waits for all earlier ones to its "
                + "server, and later ones wait for it"
        ) { $0.run.wishes.mixesUnsafe = true },
        Option(
            "--show WHAT", takes: .choice(RunOptions.Show.allCases.map(\.rawValue)), .output, for: [.run],
            "print responses",
            detail: "print the head or the body of every response, or both, on standard output: formatted and "
                + "coloured on a terminal, otherwise unchanged; the lines and the summary go to standard error"
        ) { $0.run.show = RunOptions.Show(rawValue: $1) },
        Option(
            "-o, --output NAME=-", .output, for: [.run], "print the body of one request",
            detail: "print the body of the response to the request NAME on standard output, unchanged",
            isRepeatable: true
        ) { try $0.run.setPrinted($1) },
        .flag(
            "--dry-run", .output, for: [.run], "print the requests without sending them",
            detail: "print the requests and their dependencies without sending them"
        ) { $0.run.isDryRun = true },
        Option(
            "--junit FILE", takes: .output, .output, for: [.run], "write the outcomes as JUnit XML",
            detail: "write the outcomes to FILE as JUnit XML, for CI systems"
        ) { $0.run.junit = $1 },
    ]
}
