import ConvoyHTTPFile

/// The result of an import: the written text, its notes, and the file read from it.
struct Imported {
    let file: ImportedFile
    let text: String
    let notes: [String]

    init(_ document: String, _ change: (inout ImportedFile.Wishes) -> Void = { _ in }) throws {
        try self.init(Array(document.utf8), change)
    }

    init(_ bytes: [UInt8], _ change: (inout ImportedFile.Wishes) -> Void = { _ in }) throws {
        var wishes = ImportedFile.Wishes()
        change(&wishes)
        file = try ImportedFile(reading: bytes, wishes)
        (text, notes) = HTTPFileWriter.write(file)
    }

    /// The surroundings in which a variable without a given value has its own name as its value.
    private func values(_ given: [String: String], files: [String: String] = [:]) -> Surroundings {
        let names = file.unsetVariables + file.variables.filter(\.isSecret).map(\.name)
        return surroundings({ $0.given = given.merging(names.map { ($0, $0) }) { given, _ in given } }, files: files)
    }

    func built(_ given: [String: String] = [:], files: [String: String] = [:]) throws -> [BuiltRequest] {
        try ConvoyHTTPFileTests.built(text, values(given, files: files))
    }

    /// The plan of the file, in which references to responses have no values yet.
    func plan(_ given: [String: String] = [:]) -> RunPlan { ConvoyHTTPFileTests.plan(text, values(given)) }
}

/// A HAR with these entries.
func har(_ entries: String...) -> String { "{\"log\": {\"entries\": [\(entries.joined(separator: ","))]}}" }

/// A collection with these items and further members.
func collection(_ items: String, _ more: String = "") -> String {
    "{\"info\": {\"name\": \"Shop\"}, \"item\": [\(items)]\(more)}"
}
