import Convoy
import Foundation

extension Option {
    static let fileOptions: [Option] = [
        Option(
            "-o, --output NAME", takes: .output, .files, for: [.fetch, .queue(.add)],
            "the file of one URL, a directory, or -",
            detail: "the file of one URL. With fetch, - is standard output, a device or a pipe receives the bodies, "
                + "and an existing directory the files; several -o name the URLs in their order, and #1 is the value of the "
                + "first {} or [] pattern of a URL",
            isRepeatable: true
        ) { $0.fetch.outputs.append(.file($1)) },
        Option(
            "-P, --directory-prefix DIR", takes: .directory, .files, for: [.fetch, .queue(.add)],
            "the directory for the files", more: "; it must exist (default: the current directory)",
            aliases: ["output-dir"]
        ) { $0.fetch.setDirectory($1) },
        .flag(
            "--no-directories", .files, "put the files of a list into one directory",
            detail: "put files into one directory; by default the directories in a list's names are created"
        ) { $0.fetch.isFlat = true },
        .flag(
            "-J, --content-disposition", .files, "name files as the server proposes",
            more: ", otherwise by the URL after redirects; see convoy help names", aliases: ["remote-header-name"]
        ) { $0.fetch.takesProposedNames = true },
        Option(
            "--existing WHAT", takes: .choice(ExistingFile.allCases.map(\.rawValue)), .files,
            "what happens when a file already exists",
            detail: "when a file already exists: overwrite (the default), fail, rename, skip or updateIfChanged; see "
                + "convoy help names"
        ) { $0.fetch.existing = ExistingFile(rawValue: $1) },
        Option(
            "-z, --newer DATE|FILE", takes: .input, .files, "fetch only files newer than a date or a file",
            detail: "fetch only files that have changed since DATE, or since FILE was fetched, and skip others; a new "
                + "file gets the modification time of the server",
            aliases: ["time-cond"]
        ) { $0.fetch.sending.newer = try NewerThan($1) },
        Option(
            "-r, --range BYTES", .files, for: [.fetch, .cache(.why)], "only these bytes, such as 0-499",
            detail: "only these bytes of the body, such as 0-499, 500- or -500; a server may send the complete body"
        ) { $0.fetch.sending.range = try SendingOptions.range($1) },
        digestOption(.sha256, "SHA-256", 64),
        digestOption(.sha512, "SHA-512", 128),
        Option(
            "--mirror URL", .files, "another URL of the same file",
            more: ", for parts that are slow or fail; needs --sha256 or --sha512", isRepeatable: true
        ) { $0.fetch.mirrors.append(try InputLine.url($1)) },
        .flag(
            "--discard", .files, "receive the bodies and discard them", more: ", for measurements; nothing is verified"
        ) { $0.fetch.destination = .nowhere },
    ]

    private static func digestOption(_ algorithm: FileDigest.Algorithm, _ name: String, _ digits: Int) -> Option {
        Option(
            "--\(algorithm.rawValue) HEX", .files, "the \(name) digest of the file",
            more: ", \(digits) digits, for a single URL; bytes with another digest are deleted, and the request fails"
        ) {
            let digest: FileDigest = algorithm == .sha256 ? .sha256($1) : .sha512($1)
            if let other = $0.fetch.digest, other.algorithm != algorithm {
                throw UsageError("and --\(other.algorithm.rawValue) exclude each other; remove one of them")
            }
            if let defect = digest.defect { throw UsageError(": \(defect)") }
            $0.fetch.digest = digest
        }
    }

    private static func listOption(for verb: Verb, _ formats: String) -> Option {
        Option(
            "-i, --input FILE", takes: .input, .lists, for: [verb], "read URLs from a file, one a line",
            detail: "read URLs from FILE, - for standard input; one a line, or \(formats)", aliases: ["input-file"]
        ) {
            guard !$1.contains("://"), $1 == "-" || !$1.hasPrefix("-") else {
                throw UsageError("takes a file with URLs; curl's -i is --include")
            }
            $0.fetch.input = $1
        }
    }

    static let listOptions: [Option] = [
        listOption(for: .fetch, "SHA256SUMS, Metalink, JSON lines or aria2's format; see convoy help lists"),
        listOption(
            for: .queue(.add),
            "Metalink, JSON lines or aria2's format, without digests, sizes and mirrors; see convoy help lists"),
        Option(
            "--base URL", .lists, for: [.fetch, .queue(.add)], "the URL of the directory of the listed files",
            detail: "the URL of the directory that contains the files of a list of names"
        ) { $0.fetch.base = try InputLine.url($1) },
        Option(
            "--shard I/N", .lists, for: [.fetch, .run], "fetch one of N parts of a list",
            detail: "send only part I of N of a list. A hash of each line decides its part, so that N machines with "
                + "different parts send every line once. auto reads both numbers from Slurm, auto/N reads I from "
                + "Kubernetes (JOB_COMPLETION_INDEX) or GNU parallel (PARALLEL_SEQ)"
        ) { $0.fetch.shard = try Shard($1, environment: ProcessInfo.processInfo.environment) },
        Option(
            "--save-failed FILE", takes: .output, .lists, "write a list of the failed URLs",
            detail: "write failed and cancelled URLs and invalid lines to FILE, a list for -i"
        ) { $0.fetch.failedList = $1 },
    ]
}
