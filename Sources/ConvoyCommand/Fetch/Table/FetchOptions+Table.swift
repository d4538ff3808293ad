// The options of `convoy fetch`: what parses them, completes them and must be in the help.
import Convoy

extension Option {
    static let input = Option("input", short: "i", value: .file("FILE"), summary: "read URLs from a file, one a line")
    static let outputDirectory = Option(
        "output-dir", short: "o", value: .directory("DIR"), summary: "the directory where files go")
    static let contentDisposition = Option(
        "content-disposition", short: "J", summary: "name files as the server proposes")
    static let existing = Option(
        "existing", value: .choice("WHAT", among: ExistingFile.allCases.map(\.rawValue)),
        summary: "what happens when a file is there already")
    static let sha256 = Option("sha256", value: .text("HEX"), summary: "the SHA-256 digest of the file")
    static let sha512 = Option("sha512", value: .text("HEX"), summary: "the SHA-512 digest of the file")
    static let discard = Option("discard", summary: "receive the bodies and drop them")
    static let jobs = Option("jobs", short: "j", value: .text("N"), summary: "requests in flight at once")
    static let perHost = Option("per-host", value: .text("N"), summary: "requests in flight to one host")
    static let segments = Option("segments", value: .text("N"), summary: "ranges of one file fetched at once")
    static let retries = Option("retries", value: .text("N"), summary: "attempts after the first")
    static let deadline = Option("deadline", value: .text("SEC"), summary: "seconds for each URL")
    static let rate = Option("rate", value: .text("BYTES"), summary: "bytes per second for the whole run")
    static let minSpeed = Option(
        "min-speed", value: .text("BYTES"), summary: "bytes per second that are too slow below")
    static let header = Option("header", value: .text("'K: V'"), summary: "a header field for every request")
    static let compressed = Option("compressed", summary: "ask for compressed bodies, store them decompressed")
    static let transport = Option(
        "transport", value: .choice("NAME", among: ["curl", "urlsession"]), summary: "what sends the requests")
    static let quiet = Option("quiet", summary: "print errors only")
    static let json = Option("json", summary: "print one JSON object a line")
}

extension FetchOptions {
    /// All of them, in the order of the help.
    static let table: [Option] = [
        .input, .outputDirectory, .contentDisposition, .existing, .sha256, .sha512, .discard, .jobs, .perHost,
        .segments, .retries, .deadline, .rate, .minSpeed, .header, .compressed, .transport, .quiet, .json, .help,
    ]
}
