import ConvoyHTTPFile

struct ImportOptions: Sendable {
    private(set) var file = ""
    var output: String?
    var wishes = ImportedFile.Wishes()
}

extension ImportOptions {
    init?(parsing arguments: [String]) throws(UsageError) {
        guard let parsed = try ParsedOptions(.import, arguments) else { return nil }
        self = parsed.import
        guard let file = parsed.operands.first else {
            throw UsageError("a document is missing; write convoy import FILE, or - for standard input")
        }
        guard parsed.operands.count == 1 else {
            throw UsageError("import takes one document, not \(parsed.operands.count)")
        }
        self.file = file
        try parsed.checkFiles([NamedFile(name: "the document", path: file, use: .input)])
    }
}
