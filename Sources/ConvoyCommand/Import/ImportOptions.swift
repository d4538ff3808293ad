// The options of `convoy import`.
import ConvoyHTTPFile

/// The checked options of an import.
struct ImportOptions: Sendable {
    /// The document; a dash is standard input.
    let file: String
    /// The file for the requests; nil for standard output.
    let output: String?
    let wishes: ImportedFile.Wishes

    private static let output = Option(
        "output", short: "o", value: .file("FILE"), .output, summary: "write the requests to a file",
        detail: "write to FILE, and bodies that are no text beside it; without it requests go to standard output")

    private static let host = Option(
        "host", value: .text("PATTERN"), .requests, summary: "take requests to these hosts only",
        detail: "take requests to hosts of this name only; * stands for any letters; may be given several times",
        isRepeatable: true)

    private static let all = Option(
        "all", .requests, summary: "take images, fonts, scripts and style sheets too",
        detail: "take images, fonts, scripts, style sheets and preflights of a HAR too")

    private static let keepSecrets = Option(
        "keep-secrets", .credentials, summary: "write secrets into the file",
        detail: "write secrets into the file, as values of its variables")

    static let table: [Option] = [output, host, all, keepSecrets, .help]

    /// Parses a command line; nil when it asks for help.
    init?(parsing arguments: [String]) throws(UsageError) {
        let scanned = try OptionScanner(options: Self.table, command: "import").scan(arguments)
        if scanned.has(.help) { return nil }
        guard let file = scanned.operands.first else {
            throw Self.error("there is no document; write convoy import FILE, or - for standard input")
        }
        guard scanned.operands.count == 1 else {
            throw Self.error("import takes one document, and got \(scanned.operands.count)")
        }
        self.file = file
        output = scanned.value(of: Self.output)
        var wishes = ImportedFile.Wishes()
        wishes.hosts = scanned.values(of: Self.host)
        wishes.keepsAssets = scanned.has(Self.all)
        wishes.keepsSecrets = scanned.has(Self.keepSecrets)
        self.wishes = wishes
    }

    static func error(_ message: String) -> UsageError { UsageError(message, command: "import") }
}
