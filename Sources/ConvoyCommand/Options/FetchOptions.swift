// The options of `convoy fetch`.
import Convoy
import Foundation

/// The checked options of a fetch.
struct FetchOptions: Sendable {
    /// The output of a URL according to `-o` or `-O`.
    enum Output: Equatable, Sendable {
        case file(String)
        /// `-O`: the file has the name from the URL.
        case named
    }

    /// The destination of bodies.
    enum Destination: Equatable, Sendable {
        case files, nowhere, standardOutput
        /// A named device or pipe.
        case device(String)
        /// No body is saved; the header fields are written to standard output.
        case head
    }

    static let defaultJobs = 8
    static let defaultPerHost = 6
    /// The possible numbers of concurrent requests.
    ///
    /// Each request needs a socket and a file. More requests could reach the usual limit of 1,024 descriptors.
    static let jobsRange = 1...256
    static let defaultRetries = 3
    static let retriesRange = 0...1_000
    static let segmentsRange = 1...16

    /// The command line for the page of `--report`, without secrets; nil if unknown.
    var commandLine: String?
    var urls: [URL] = []
    /// The digest of the only URL's file.
    var digest: FileDigest?
    /// The values of `--mirror`: further URLs of the only file.
    var mirrors: [URL] = []
    /// The file of the list, or `-` for standard input.
    var input: String?
    /// The part of the list to fetch; nil for the complete list.
    var shard: Shard?
    /// The base URL for lines of a list that begin with a file name.
    var base: URL?
    var destination = Destination.files
    /// The values of `-o` and `-O` in order.
    var outputs: [Output] = []
    /// The file names from `-o`, one for each URL; empty if `-o` names no files.
    ///
    /// Nil means the name from the URL.
    var outputNames: [String?] = []
    private(set) var directory = "."
    /// Whether the user gave a directory, with `-P` or as a part of `-o`.
    private(set) var hasDirectory = false
    /// Whether to create the directories of `-o` and `-P`.
    var makesDirectories = false
    /// Whether to remove directories from names in lists.
    var isFlat = false
    /// Whether an option was given that, as in curl, prints the response if no file is named.
    var printsAnswers = false
    /// Whether bodies are written to a terminal unchanged.
    var isRawOutput = false
    /// Whether the body of a failed response is saved like the body of a success.
    var keepsRefusals = false
    /// Whether to print header fields before bodies.
    var includesHeads = false
    /// The file for the header fields of all responses.
    var headFile: String?
    /// Whether each file gets the modification time that the server sent (`--remote-time`).
    var takesServerTime = false
    /// Whether `{}` and `[]` in a URL are patterns.
    var expandsURLs = true
    /// The maximum number of redirects; nil for the library's default.
    var maxRedirects: Int?
    /// The wait before each retry; nil for the library's default.
    var retryDelay: Duration?
    /// Whether only https URLs are accepted.
    var needsHTTPS = false
    /// The value of `--noproxy`; see ``applyNoProxy()``.
    var noProxy: String?
    /// The absolute URL of the directory.
    ///
    /// The URL is stored, because making a URL from a relative path reads the working directory.
    private(set) var directoryURL = URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
    /// Whether the server names the files that the list does not name.
    var takesProposedNames = false
    /// The value of `--existing`; see ``existing(for:)``.
    var existing: ExistingFile?
    var jobs = defaultJobs
    var perHost = defaultPerHost
    var segments = 1
    /// The maximum number of requests in flight, for any number of jobs and segments.
    var mostRequests = jobsRange.upperBound
    var retries = defaultRetries
    /// The deadline of each request; nil for none.
    var deadline: Duration?
    /// The maximum time of each attempt.
    var maxTime: Duration?
    /// The directory of the cache; nil without a cache.
    var cacheDirectory: String?
    var cachePolicy: CachePolicy?
    /// The capacity of the cache, in bytes.
    var cacheBytes: Int64 = 1 << 30
    /// The maximum size of each body, in bytes.
    var maxBytes: Int64?
    /// The maximum bytes per second of all transfers together.
    var maxRate: Int64?
    /// The minimum bytes per second of each transfer.
    var minimumSpeed: Int64?
    /// The time over which the minimum speed is measured.
    var minimumSpeedWindow = Duration.seconds(30)
    var sending = SendingOptions()
    var credentials = CredentialOptions()
    var connection = ConnectionOptions()
    /// The certificates that the environment names, which URLSession does not use; nil if no variable names any.
    var environmentTrust: ConnectionOptions.Trust?
    /// Whether requests accept content codings, which are decoded.
    ///
    /// If false, files are stored as the server sent them.
    var isCompressed = false
    var transport = TransportChoice.automatic
    var isQuiet = false
    var isJSON = false
    var isVerbose = false
    var writeOut: WriteOut?
    /// The file for a HAR archive of all requests.
    var archive: String?
    /// The file for the page of `--report`.
    var report: String?
    /// The file for a list of failed requests.
    var failedList: String?

    /// Whether bodies are not saved as files: they are discarded, or written to an output or a device.
    var discards: Bool { destination != .files }
    /// Whether standard output is used for bodies, header fields or `--write-out` instead of reports.
    var ownsOutput: Bool {
        [.standardOutput, .head].contains(destination) || writeOut != nil || headFile == "-"
    }
    /// Whether bodies are written one after another to the same destination.
    var isOneStream: Bool { if case .device = destination { true } else { destination == .standardOutput } }
    /// The values of `-o` in order.
    var paths: [String] { outputs.compactMap { if case .file(let path) = $0 { path } else { nil } } }
    var headerFields: HeaderFields { sending.headerFields }
    /// Whether files are downloaded in several ranges or from several servers.
    var usesSegments: Bool { segments > 1 || !mirrors.isEmpty }

    mutating func setDirectory(_ path: String) {
        hasDirectory = true
        directory = path
        directoryURL = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
    }
}
