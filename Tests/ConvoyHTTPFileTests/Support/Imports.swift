@testable import ConvoyHTTPFile

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

    /// Builds the requests; a variable without a given value has its own name as its value.
    func built(_ given: [String: String] = [:], files: [String: String] = [:]) throws -> [BuiltRequest] {
        let names = file.unsetVariables + file.variables.filter(\.isSecret).map(\.name)
        let values = given.merging(names.map { ($0, $0) }) { given, _ in given }
        return try ConvoyHTTPFileTests.built(text, surroundings({ $0.given = values }, files: files))
    }

    /// The plan of the file, in which references to responses have no values yet.
    func plan(_ given: [String: String] = [:]) -> RunPlan {
        let names = file.unsetVariables + file.variables.filter(\.isSecret).map(\.name)
        let values = given.merging(names.map { ($0, $0) }) { given, _ in given }
        return ConvoyHTTPFileTests.plan(text, surroundings { $0.given = values })
    }
}

/// A HAR with these entries.
func har(_ entries: String...) -> String { "{\"log\": {\"entries\": [\(entries.joined(separator: ","))]}}" }

/// A collection with these items and further members.
func collection(_ items: String, _ more: String = "") -> String {
    "{\"info\": {\"name\": \"Shop\"}, \"item\": [\(items)]\(more)}"
}
