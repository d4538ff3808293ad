import Testing

@testable import ConvoyHTTPFile

/// Tests rows of CSV and of JSON Lines.
@Suite struct RowReaderTests {
    private func read(_ format: RowReader.Format, _ lines: String...) -> (RowReader, [RowReader.Outcome]) {
        var reader = RowReader(format)
        var outcomes = lines.enumerated().compactMap { reader.take($0.element, at: $0.offset + 1) }
        if let last = reader.finish() { outcomes.append(last) }
        return (reader, outcomes)
    }

    private func values(_ outcomes: [RowReader.Outcome]) -> [[String: String]] {
        outcomes.compactMap { if case .row(let row) = $0 { row.values } else { nil } }
    }

    @Test func theFirstLineNamesTheColumns() {
        let (reader, outcomes) = read(.csv, "id, name", "1,Ada", "", "2,")
        #expect(reader.columns == ["id", "name"])
        #expect(reader.defect == nil)
        #expect(
            outcomes == [
                .row(Row(line: 2, values: ["id": "1", "name": "Ada"], text: "1,Ada")),
                .row(Row(line: 4, values: ["id": "2", "name": ""], text: "2,")),
            ])
    }

    @Test func quotedValuesMayContainCommasQuotesAndLineEnds() {
        let (_, outcomes) = read(.csv, "a,b", #""x, ""y""",z"#, "\"one", "two\",3", #""","#)
        #expect(values(outcomes) == [["a": "x, \"y\"", "b": "z"], ["a": "one\ntwo", "b": "3"], ["a": "", "b": ""]])
    }

    @Test func invalidRowsAreReportedAndTheOthersRead() {
        let (_, outcomes) = read(.csv, "a,b", "1", "1,2,3", "1,x\"y", "\"1\"x,2", "3,4", "\"5", "6")
        #expect(
            outcomes == [
                .broken(line: 2, reason: "it has 1 value for 2 columns"),
                .broken(line: 3, reason: "it has 3 values for 2 columns"),
                .broken(line: 4, reason: "a value without quotes around it contains a quote"),
                .broken(line: 5, reason: "text follows a closing quote"),
                .row(Row(line: 6, values: ["a": "3", "b": "4"], text: "3,4")),
                .broken(line: 7, reason: "its quote is not closed"),
            ])
    }

    @Test(arguments: [(",", "names no columns"), ("a,b,a", "‘a’ twice"), ("a,\"b\"c", "closing quote")])
    func aFirstLineThatNamesNoColumnsIsADefect(line: String, words: String) throws {
        let (reader, _) = read(.csv, line, "1,2,3")
        #expect(try #require(reader.defect).contains(words))
    }

    @Test func objectsAreRows() {
        let (reader, outcomes) = read(
            .jsonLines, #"{"id": 12345678901234567890, "name": "Ada", "tags": ["x"], "ok": true}"#, " ",
            #"{"id": 2, "name": "B", "tags": null, "ok": false, "more": 1}"#, #"{"id": 3}"#, "[1]", "{oops}")
        #expect(reader.columns == ["id", "name", "tags", "ok"])
        #expect(values(outcomes).map { $0["id"] } == ["12345678901234567890", "2", "3"])
        #expect(values(outcomes).first?["tags"] == #"["x"]"#)
        #expect(
            outcomes.dropFirst(3) == [
                .broken(line: 5, reason: "it is not an object"),
                .broken(line: 6, reason: "it is not JSON: found o instead of a name in quotation marks or }"),
            ])
    }

    /// A quote that is never closed makes at most a megabyte of the following lines invalid.
    @Test func anUnclosedQuoteIsLimited() {
        var reader = RowReader(.csv)
        #expect(reader.take("a", at: 1) == nil)
        #expect(reader.take("\"x", at: 2) == nil)
        let line = String(repeating: "y", count: 60_000)
        let outcomes = (3..<40).compactMap { reader.take(line, at: $0) }
        #expect(outcomes.first == .broken(line: 2, reason: "its quote is not closed within a megabyte"))
        #expect(outcomes.count > 10)
    }
}
