// Options about files and lists.
import Convoy
import Foundation

extension Option {
    static let fileOptions: [Option] = [
        Option(
            "output", short: "o", value: .file("NAME"), .files, for: [.fetch, .queue(.add)],
            summary: "the file of one URL, a directory, or -",
            detail:
                "the file of one URL; - is standard output, a device or a pipe gets the bodies, and a directory that "
                + "is there is where files go; several are for the URLs in their order, and #1 is what the first {} or "
                + "[] of a URL stands for",
            isRepeatable: true
        ) { $0.fetch.outputs.append(.file($1)) },
        Option(
            "directory-prefix", short: "P", value: .directory("DIR"), .files, for: [.fetch, .queue(.add)],
            summary: "the directory where files go",
            detail: "where files go; it must exist (default: the current directory)", aliases: ["output-dir"]
        ) { $0.fetch.setDirectory($1) },
        Option(
            "no-directories", .files, summary: "put the files of a list into one directory",
            detail: "put files whose names in a list have directories into one; else these are made"
        ) { $0.fetch.isFlat = true },
        Option(
            "content-disposition", short: "J", .files, summary: "name files as the server proposes",
            detail: "name files as the server proposes, otherwise as the URL that answered; see convoy help names",
            aliases: ["remote-header-name"]
        ) { $0.fetch.takesProposedNames = true },
        Option(
            "existing", value: .choice("WHAT", among: ExistingFile.allCases.map(\.rawValue)), .files,
            summary: "what happens when a file already exists",
            detail: "when a file already exists: overwrite (the default), fail, rename, skip or updateIfChanged; "
                + "see convoy help names"
        ) { $0.fetch.existing = ExistingFile(rawValue: $1) },
        Option(
            "newer", short: "z", value: .file("DATE|FILE"), .files, summary: "only files newer than a date or a file",
            detail:
                "fetch only what has changed since DATE, or since FILE was fetched; what has not is skipped, and a new "
                + "file gets the time that the server names",
            aliases: ["time-cond"]
        ) {
            $0.fetch.sending.newer = try NewerThan($1)
            $0.fetch.existing = $0.fetch.existing ?? .updateIfChanged
        },
        Option(
            "range", short: "r", value: .text("BYTES"), .files, for: [.fetch, .cache(.why)],
            summary: "only these bytes, such as 0-499",
            detail: "only these bytes of the body, such as 0-499, 500- or -500"
        ) { $0.fetch.sending.range = try SendingOptions.range($1) },
        digestOption(.sha256, "the SHA-256 digest of the file", "64 digits"),
        digestOption(.sha512, "the SHA-512 digest of the file", "128 digits"),
        Option(
            "mirror", value: .text("URL"), .files, summary: "another place of the file",
            detail: "another place of the same file, for parts that are slow or fail; needs --sha256 or --sha512",
            isRepeatable: true
        ) { $0.fetch.mirrors.append(try InputLine.url($1)) },
        Option(
            "discard", .files, summary: "receive the bodies and drop them",
            detail: "receive the bodies and drop them, for measuring; nothing is verified"
        ) { $0.fetch.destination = .nowhere },
    ]

    private static func digestOption(
        _ algorithm: FileDigest.Algorithm, _ summary: String, _ digits: String
    ) -> Option {
        Option(
            algorithm.rawValue, value: .text("HEX"), .files, summary: summary,
            detail: "\(summary), \(digits), for a single URL; a file with another one fails and is thrown away"
        ) {
            let digest: FileDigest = algorithm == .sha256 ? .sha256($1) : .sha512($1)
            if let other = $0.fetch.digest, other.algorithm != algorithm {
                throw UsageError("and --\(other.algorithm.rawValue) exclude each other; give one of them")
            }
            if let defect = digest.defect { throw UsageError(": \(defect)") }
            $0.fetch.digest = digest
        }
    }

    static let listOptions: [Option] = [
        Option(
            "input", short: "i", value: .file("FILE"), .lists, for: [.fetch, .queue(.add)],
            summary: "read URLs from a file, one a line",
            detail: "read URLs from FILE, - for standard input; a line each, or SHA256SUMS, Metalink, JSON lines or "
                + "aria2's format; see convoy help lists",
            aliases: ["input-file"]
        ) {
            guard !$1.contains("://"), $1 == "-" || !$1.hasPrefix("-") else {
                throw UsageError("takes a file with URLs in it; curl's -i is --include")
            }
            $0.fetch.input = $1 == "-" ? .standardInput : .file($1)
        },
        Option(
            "base", value: .text("URL"), .lists, for: [.fetch, .queue(.add)], summary: "where the names in a list are",
            detail: "where the names in a list are, of SHA256SUMS for example"
        ) { $0.fetch.base = try InputLine.url($1) },
        Option(
            "shard", value: .text("I/N"), .lists, for: [.fetch, .run], summary: "take one of N parts of a list",
            detail:
                "of the lines of a list, take those of part I of N, which follow from the lines themselves: N machines "
                + "that each take another part take every line once. auto asks Slurm for both, auto/N Kubernetes "
                + "(JOB_COMPLETION_INDEX) or GNU parallel (PARALLEL_SEQ) for I"
        ) { $0.fetch.shard = try Shard($1, environment: ProcessInfo.processInfo.environment) },
        Option(
            "save-failed", value: .file("FILE"), .lists, summary: "write a list of what failed",
            detail: "write what failed or was cancelled to FILE, a list for -i, broken lines too"
        ) { $0.fetch.failedList = $1 },
    ]
}
