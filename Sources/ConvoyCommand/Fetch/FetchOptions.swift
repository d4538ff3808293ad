// What `convoy fetch` was asked for.
import Convoy
import Foundation

/// The options of a fetch, checked.
struct FetchOptions: Sendable {
    /// Where the list of URLs comes from.
    enum Input: Equatable, Sendable {
        case standardInput
        case file(String)
    }

    /// What `-o` or `-O` says of a URL.
    enum Output: Equatable, Sendable {
        case file(String)
        /// Named by its URL.
        case named
    }

    /// Where bodies go.
    enum Destination: Equatable, Sendable {
        case files
        case nowhere
        case standardOutput
        /// A device or a pipe that has a name.
        case device(String)
        /// There are none: the header fields go to standard output.
        case head
    }

    static let defaultJobs = 8
    static let defaultPerHost = 6
    /// Each takes a socket and a file: more would meet the usual limit of 1,024 descriptors.
    static let jobsRange = 1...256
    static let defaultRetries = 3
    static let retriesRange = 0...1_000
    static let segmentsRange = 1...16
    /// The time over which ``minimumSpeed`` is measured.
    static let minimumSpeedWindow = Duration.seconds(30)

    /// The command line as a page may show it; nil where there is none.
    var commandLine: String?
    var urls: [URL] = []
    /// Of the only URL.
    var digest: FileDigest?
    /// Where else the file of the only URL is.
    var mirrors: [URL] = []
    var input: Input?
    /// Which lines of the list are fetched here; nil for all.
    var shard: Shard?
    /// What names in lists are relative to.
    var base: URL?
    var destination = Destination.files
    /// What `-o` and `-O` were given, in this order.
    var outputs: [Output] = []
    /// What the files of the URLs are called, whatever these say; as many as there are URLs, or none.
    var outputNames: [String?] = []
    private(set) var directory = "."
    /// Whether a directory was asked for.
    private(set) var hasDirectory = false
    /// Whether directories of the user's own names are made.
    var makesDirectories = false
    /// Whether names of lists lose their directories.
    var isFlat = false
    /// Whether the line has an option by which curl's are known: without a name for a file they print the answer.
    var printsAnswers = false
    /// Whether bodies reach a terminal as they are.
    var isRawOutput = false
    /// Whether a refusal's body is kept where that of a success would be.
    var keepsRefusals = false
    /// Whether header fields are printed before bodies.
    var includesHeads = false
    /// Where the header fields of all answers are written.
    var headFile: String?
    /// Whether files get the time that the server names.
    var takesServerTime = false
    /// Whether `{}` and `[]` in a URL stand for several.
    var expandsURLs = true
    /// How many redirects are followed; nil for the library's number.
    var maxRedirects: Int?
    /// The wait before each retry; nil for the library's.
    var retryDelay: Duration?
    /// What is to stand in `no_proxy`.
    var noProxy: String?
    /// Made once: making a URL of a relative path asks for the working directory.
    private(set) var directoryURL = URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
    /// Whether the server names the files that the list does not name.
    var takesProposedNames = false
    /// What was asked for; see ``existing(for:)``.
    var existing: ExistingFile?
    var jobs = defaultJobs
    var perHost = defaultPerHost
    var segments = 1
    /// How many requests may be in flight, however many jobs with however many segments there are.
    var mostRequests = jobsRange.upperBound
    var retries = defaultRetries
    /// For each request, everything included; nil for as long as it takes.
    var deadline: Duration?
    /// For each attempt.
    var maxTime: Duration?
    /// Of each body.
    var maxBytes: Int64?
    /// Bytes per second of all together.
    var maxRate: Int64?
    /// Bytes per second of each, over ``minimumSpeedWindow``.
    var minimumSpeed: Int64?
    var sending = SendingOptions()
    var credentials = CredentialOptions()
    var connection = ConnectionOptions()
    /// What the environment says of trust; for a transport that cannot do it, it says nothing.
    var environmentTrust: ConnectionOptions.Trust?
    /// Whether codings are asked for and undone; else files are stored as they are sent.
    var isCompressed = false
    var transport = TransportChoice.automatic
    var isQuiet = false
    var isJSON = false
    var isVerbose = false
    var writeOut: WriteOut?
    /// Where an archive of all requests is written.
    var archive: String?
    /// Where a page about all requests is written.
    var report: String?
    /// Where the list of what failed is written.
    var failedList: String?

    /// Whether no file is written.
    var discards: Bool { destination != .files }
    /// Whether standard output belongs to what was asked for, and not to reports.
    var ownsOutput: Bool {
        [.standardOutput, .head].contains(destination) || writeOut != nil || headFile == "-"
    }
    /// Whether bodies go where one follows the other.
    var isOneStream: Bool {
        switch destination {
        case .standardOutput, .device: true
        case .files, .nowhere, .head: false
        }
    }
    /// What the last `-o` was given.
    var output: String? {
        for case .file(let path) in outputs.reversed() { return path }
        return nil
    }
    var headerFields: HeaderFields { sending.headerFields }
    /// Whether files come in several ranges at once, or from several places.
    var usesSegments: Bool { segments > 1 || !mirrors.isEmpty }

    mutating func setDirectory(_ path: String) {
        hasDirectory = true
        directory = path
        directoryURL = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
    }

    /// What happens when the file of an item exists.
    ///
    /// Unless asked for, it is replaced: whether it is what the URL leads to cannot be told. A name that a server chose
    /// replaces nothing.
    func existing(for item: FetchItem) -> ExistingFile {
        existing ?? (takesProposedNames && !item.isNamed ? .rename : .overwrite)
    }
}
