import ConvoyHTTPFile
import Testing

/// Tests rows of CSV and of JSON Lines.
@Suite struct RowReaderTests {
    private func read(_ format: RowReader.Format, _ lines: String...) -> (RowReader, [RowReader.Outcome]) {
        read(format, lines)
    }

    private func read(_ format: RowReader.Format, _ lines: [String]) -> (RowReader, [RowReader.Outcome]) {
        var reader = RowReader(format)
        var outcomes = lines.enumerated().compactMap { reader.take($0.element, at: $0.offset + 1) }
        while let last = reader.finish() { outcomes.append(last) }
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

    @Test(
        arguments: [
            (
                ["a,b", #""x, ""y""",z"#, "\"one", "two\",3", #""","#],
                [["a": "x, \"y\"", "b": "z"], ["a": "one\ntwo", "b": "3"], ["a": "", "b": ""]]
            ),
            (
                ["id;price;note", "1;1,5;\"a;b\"", "2;\"2\t\";c,d,e,f"],
                [["id": "1", "price": "1,5", "note": "a;b"], ["id": "2", "price": "2\t", "note": "c,d,e,f"]]
            ),
        ] as [([String], [[String: String]])])
    func valuesMayContainSeparatorsQuotesAndLineEnds(lines: [String], expected: [[String: String]]) {
        #expect(values(read(.csv, lines).1) == expected)
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

    @Test func objectsAreRows() {
        let (reader, outcomes) = read(
            .json, #"{"id": 12345678901234567890, "name": "Ada", "tags": ["x"], "ok": true}"#, " ",
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

    // MARK: Formats

    @Test(
        arguments: [
            (.csv, ["id,name", "1,Ada"]), (.csv, ["id;name", "1;Ada"]), (.csv, ["id\tname", "1\tAda"]),
            (.csv, ["sep=;", "id;name", "1;Ada"]), (.csv, ["SEP=|", "id|name", "1|Ada"]),
            (.csv, ["\"id\";\"name\"", "\"1\";\"Ada\""]), (.csv, ["id;\"name\"", "1;Ada"]),
            (.json, [#"{"id": 1, "name": "Ada"}"#]), (.json, [#"[{"id": 1, "name": "Ada"}]"#]),
            (.json, ["", " [", " {", "\"id\":", "1, \"name\" :\"Ada\"", "}", "]", ""]),
            (.json, [#"[{"id": "1","name":"\u0041da"}]"#]),
        ] as [(RowReader.Format, [String])])
    func commonFormatsAreRead(format: RowReader.Format, lines: [String]) {
        let (reader, outcomes) = read(format, lines)
        #expect(reader.defect == nil)
        #expect(reader.columns == ["id", "name"])
        #expect(values(outcomes) == [["id": "1", "name": "Ada"]])
    }

    @Test func allElementsOfAnArrayAreRows() {
        let array = #"[{"a": "}],[{\"", "b": [1, {"c": 2}]}, {"a": 1},{}, {"a": 1}]"#
        let (reader, outcomes) = read(.json, array)
        #expect(reader.columns == ["a", "b"])
        #expect(
            outcomes == [
                .row(
                    Row(
                        line: 1, values: ["a": "}],[{\"", "b": #"[1,{"c":2}]"#],
                        text: #"{"a": "}],[{\"", "b": [1, {"c": 2}]}"#)),
                .row(Row(line: 2, values: ["a": "1"], text: #"{"a": 1}"#)), .row(Row(line: 3, text: "{}")),
                .row(Row(line: 4, values: ["a": "1"], text: #"{"a": 1}"#)),
            ])
    }

    @Test(
        arguments: [
            (.csv, "id|name\n1|Ada", "‘id|name’"), (.csv, "id;a,b", "commas, semicolons or tabs"),
            (.csv, "<rows>\n<row/>", "name of a variable"), (.csv, "- id: 1", "name of a variable"),
            (.csv, "First Name", "‘First Name’"),
            (.csv, "id,name\r1,Ada\r2,B", "CR"), (.csv, "\n;;\n1;2;3", "names no columns"),
            (.csv, "a;b;a", "‘a’ twice"), (.csv, "a,\"b\"c\n1,2,3", "closing quote"),
            (.csv, ",\n1,2", "names no columns"),
            (.json, #"["a", "b"]"#, "element 1 of its array is not an object"),
            (.json, #"[{"a": 1}, 2]"#, "element 2"), (.json, #"[{"a": 1}, [2]]"#, "element 2"),
            (.json, "[[\"id\"],[1]]", "element 1"), (.json, "[{\"a\": 1}", "it is not JSON: it ends"),
            (.json, "[{\"a\": 1}]\n[{\"a\": 2}]", "it is not JSON"), (.json, "[{\"a\": 1},]", "it is not JSON"),
            (.json, "{\n\"a\": 1\n}", "line 1: it is not JSON"), (.json, "1\n2", "line 1: it is not an object"),
            (.json, "oops", "line 1: it is not JSON"),
        ] as [(RowReader.Format, String, String)])
    func otherFormatsAreRefusedAsAWhole(format: RowReader.Format, text: String, words: String) throws {
        var reader = RowReader(format)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        for (place, line) in lines.enumerated() where reader.defect == nil { _ = reader.take(line, at: place + 1) }
        if reader.defect == nil { _ = reader.finish() }
        let defect = try #require(reader.defect)
        #expect(defect.contains(words))
        #expect(reader.finish() == nil)
    }

    @Test func anArrayIsLimited() {
        var reader = RowReader(.json)
        #expect(reader.take("[", at: 1) == nil)
        let line = "1," + String(repeating: " ", count: 8 << 20)
        for number in 2..<12 { #expect(reader.take(line, at: number) == nil) }
        #expect(reader.defect?.contains("64 MiB") == true)
        #expect(reader.finish() == nil)
    }
}
