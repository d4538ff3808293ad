import Foundation
import Testing

@Suite final class RowsRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { .status(200, body: "{\"id\": \"\($0.path.split(separator: "/").last ?? "")\"}") }
    }

    private var paths: [String] { server.recordedRequests.map(\.path).sorted() }

    @Test func theGraphRunsForEachRow() async throws {
        let rows = try write("id,name\r\n1,Ada\r\n2,\"B, \"\"x\"\"\"\r\n3\r\nü,D\r\n", to: "d.csv")
        let text = """
            # @name create
            POST BASE/users/{{id}}

            {{name}}
            ###
            GET BASE/read/{{&create.response.body.$.id}}
            """
        try await run(text)(
            "--each", rows, status: 1, prints: ["6 responses", "(create)  \(rows):3  "],
            errors: "^convoy: \(rows):4: it has 1 value for 2 columns\n$")
        #expect(paths == ["/read/%C3%BC", "/read/1", "/read/2", "/users/%C3%BC", "/users/1", "/users/2"])
        let bodies = server.recordedRequests.filter { $0.method == "POST" }.map(\.bodyText).sorted()
        #expect(bodies == ["Ada", "B, \"x\"", "D"])
    }

    @Test func objectsAreRowsToo() async throws {
        let rows = try write("{\"id\": 1}\n{\"id\": {\"a\": 2}}\n{\"no\": 3}\noops\n", to: "d.jsonl")
        try await run("POST BASE/x\n\n{{id}}")(
            "--each", rows, "--json", status: 1,
            prints: ["the row has no id", "\"code\":\"invalidRow\"", "\"line\":4", "\"failed\":2"])
        #expect(server.recordedRequests.map(\.bodyText).sorted() == ["1", "{\"a\":2}"])
    }

    @Test func columnsOverrideVariablesOfTheFile() async throws {
        let rows = try write("id\n7\n", to: "d.csv")
        try await run("@id = 1\n@path = x{{id}}\nGET BASE/{{path}}")("--each", rows)
        #expect(paths == ["/x7"])
        try await run("GET BASE/{{id}}")(
            "--each", rows, "--variable", "id=3", status: 2, errors: "--variable id is also a column")
    }

    @Test func aMissingColumnIsReportedBeforeAnyRequest() async throws {
        let rows = try write("id,name\n1,2\n", to: "d.csv")
        try await run("GET BASE/{{nam}}")(
            "--each", rows, status: 2, errors: "the variable ‘nam’ has no value; did you mean name?")
        #expect(server.requestCount == 0)
    }

    @Test func requestsAreRepeatedAndShareNoCookies() async throws {
        server.respond { _ in .status(200, headerFields: [("Set-Cookie", "a=b")]) }
        try await run("GET BASE/x")("--repeat", "5", "-j", "1")
        #expect(paths.count == 5)
        #expect(server.recordedRequests.allSatisfy { $0.value(of: "Cookie") == nil })
    }

    /// A row's text cannot become a header field, another host or a path outside the directory.
    @Test func valuesOfRowsStayWhereTheyStand() async throws {
        let rows = try write(
            "{\"v\": \"x\\r\\nX-Evil: 1\"}\n{\"v\": \"../../etc\"}\n{\"v\": \"@127.0.0.1:1\"}\n", to: "d.jsonl")
        try await run("GET BASE/\nX: {{v}}")("--each", rows, status: nil, errors: "contains a line end")
        try await run("GET BASE/\n\n>> {{v}}/a")("--each", rows, status: nil, errors: "cannot be part of a file name")
        try await run("GET http://127.0.0.1{{v}}/")("--each", rows, status: nil, errors: "would change the host")
        #expect(server.recordedRequests.allSatisfy { $0.value(of: "X-Evil") == nil })
    }

    /// The command reads a row from a pipe only when it can send the row's request.
    @Test func rowsAreReadAsTheyAreNeeded() async throws {
        let gate = Gate()
        server.respond { _ in .status(200).stalling(until: gate) }
        let process = try ConvoyProcess(
            shell: #"printf 'n\n1\n2\n3\n4\n' | "$0" run --each - -j 2 "$1""#, [write("GET BASE/{{n}}", to: "a.http")])
        var taken: [String] = []
        for _ in 0..<2 { taken.append(try await server.takeRequest().path) }
        #expect(server.requestCount == 2)
        gate.open()
        try await process.ended(status: 0)
        #expect((taken + paths).sorted() == ["/1", "/2", "/3", "/4"])
    }

    @Test func aRunContinuesAfterAnInterruption() async throws {
        let rows = try write("id\n1\nbad\n1\n4\n", to: "d.csv")
        let journal = path("done")
        server.respond { .status($0.path == "/bad" ? 404 : 200) }
        try await run("GET BASE/{{id}}")("--each", rows, "--done", journal, status: 1)
        #expect(paths == ["/1", "/1", "/4", "/bad"])
        // A process that is killed during a write may leave a journal whose last line is cut off.
        try write(String(content("done").dropLast(5)), to: "done")
        server.respond { _ in .status(200) }
        try await run("GET BASE/{{id}}")("--each", rows, "--done", journal)
        #expect(paths.count == 6)
        #expect(paths.filter { $0 == "/bad" }.count == 2)
        try await run("GET BASE/{{id}}")("--each", rows, "--done", journal)
        #expect(paths.count == 6)
    }

    /// Lines for a file of `--done`, which has room for one more row and a part of the next in 4,096 bytes.
    private static let earlierRows =
        String(repeating: "0123456789abcdef\n", count: 239) + String(repeating: "\n", count: 11)

    @Test func noOtherRowIsSentWhenTheFileCannotBeWritten() async throws {
        let rows = try write("id\n" + (1...9).map { "\($0)\n" }.joined(), to: "d.csv")
        let journal = try write(Self.earlierRows, to: "done")
        let arguments = ["-j", "1", "--each", rows, "--done", journal]
        let file = try write("GET BASE/{{id}}", to: "a.http")
        let ending = try await convoy(shell: "ulimit -f 8; exec \"$0\" run \"$@\"", file, arguments, status: 1)
        #expect(paths == ["/1", "/2"])
        #expect(ending.errors.contains("\(rows):3 has succeeded, but is not recorded, so no further row is started: "))
        #expect(ending.errors.contains("\(journal) cannot be written: "))
        // The next run sends the row again that was not recorded.
        try await convoy("run", file, arguments)
        #expect(paths == (["/2"] + (1...9).map { "/\($0)" }).sorted())
    }

    /// The run ends although the program that writes the rows does not, and ignores the incomplete row.
    @Test func aRunThatCannotRecordRowsWaitsForNoOtherRow() async throws {
        let gate = Gate()
        server.respond { $0.path == "/2" ? .status(200).stalling(until: gate) : .status(200) }
        let journal = try write(Self.earlierRows, to: "done")
        let file = try write("GET BASE/{{id}}", to: "a.http")
        let pipe = Pipe()
        let process = try ConvoyProcess(
            shell: "ulimit -f 8; exec \"$0\" run \"$@\"", [file, "-j", "2", "--each", "-", "--done", journal],
            input: pipe)
        try pipe.fileHandleForWriting.write(contentsOf: Data("id\n1\n2\n\"3".utf8))
        try await server.requestsReceived(count: 2)
        gate.open()
        let ending = try await process.ended(status: 1, errors: "is not recorded, so no further row is started")
        #expect(!ending.errors.contains("standard input:4"), "\(ending.errors)")
        #expect(paths == ["/1", "/2"])
        try pipe.fileHandleForWriting.close()
    }

    @Test(arguments: ["id\n1\n", "1", "0123456789abcdef\nnotes\n"])
    func aFileWithOtherLinesIsNoJournal(_ lines: String) async throws {
        let rows = try write("id\n1\n", to: "d.csv")
        let file = try write(lines, to: "other")
        try await run("GET BASE/{{id}}")("--each", rows, "--done", file, status: lines == "1" ? 0 : 2)
        #expect(try content("other").hasPrefix(lines))
    }

    @Test func partsTakeEachRowOnce() async throws {
        let rows = try write("id\n" + (1...60).map { "\($0)\n" }.joined(), to: "d.csv")
        for part in 1...3 {
            try await run("GET BASE/{{id}}")("--each", rows, "--shard", "\(part)/3")
        }
        #expect(paths == (1...60).map { "/\($0)" }.sorted())
    }

    @Test(arguments: [
        ["--each", "x.csv", "--repeat", "2"], ["--shard", "1/2"], ["--done", "x"], ["--repeat", "0"],
        ["--each", "/nonexistent.csv"], ["--each", "/"],
    ])
    func contradictoryOptionsAreRefused(arguments: [String]) async throws {
        try await run("GET BASE/")(arguments, status: 2)
        #expect(server.requestCount == 0)
    }

    // MARK: Formats

    private static let utf16 = String.Encoding.utf16LittleEndian

    @Test(
        arguments: [
            ("d.csv", "id,name\n1,Ada\n2,B\n", .utf8), ("d.csv", "\u{FEFF}id;name\r\n1;Ada\r\n2;B\r\n", .utf8),
            ("d.tsv", "id\tname\n1\tAda\n2\tB", .utf8), ("d.txt", "\u{FEFF}id\tname\r\n1\tAda\r\n2\tB\r\n", utf16),
            ("d.csv", "\u{FEFF}sep=;\nid;name\n1;Ada\n2;B\n", .utf16BigEndian),
            ("d.json", "[{\"id\":1},{\"id\":2}]", .utf8),
            ("d", "\u{FEFF}[\n  {\"id\": 1},\n  {\"id\": 2}\n]\n", .utf8),
            ("d", "{\"id\": 1}\r\n{\"id\": 2}\r\n", .utf8),
            ("d.json", "{\"id\": 1}\n{\"id\": 2}", .utf8),
            ("d.json", "\u{FEFF}[{\"id\": 1, \"x\": \"😀\"}, {\"id\": 2}]", utf16),
        ] as [(String, String, String.Encoding)])
    func commonFilesAreRead(name: String, text: String, encoding: String.Encoding) async throws {
        let rows = directory.file(name)
        try #require(text.data(using: encoding)).write(to: rows)
        try await run("GET BASE/{{id}}")("--each", rows.path)
        #expect(paths == ["/1", "/2"])
    }

    @Test(arguments: [
        ("id|id2\n1|2\n", "‘id|id2’"), ("[1, 2]", "element 1"), ("[{\"id\": 1}, {\"id\": 2}", "it is not JSON"),
        ("[]", "has no rows"), ("[{\"id\": 1}]\n{\"id\": 2}", "it is not JSON"), ("PK\0\u{3}\nid\n1\n", "NUL"),
        ("{\n\"id\": 1\n}\n", "line 1"), ("id;a,b\n1;2,3\n", "commas, semicolons or tabs"), ("id\r1\r2\r", "CR"),
        ("", ""), ("\n\n", ""), ("a,a\n1,2\n", ""), ("a\"b\n", ""),
    ])
    func aFileOfAnotherKindIsRefusedBeforeAnyRequest(text: String, words: String) async throws {
        let rows = try write(text, to: "rows")
        let ending = try await run("GET BASE/{{id}}")("--each", rows, status: 2)
        #expect(ending.errors.contains(rows) && (words.isEmpty || ending.errors.contains(words)), "\(ending.errors)")
        #expect(server.requestCount == 0)
    }

    @Test func equalElementsOfAnArrayAreRecordedOneByOne() async throws {
        let rows = try write("[{\"id\": 1}, {\"id\": 1}, {\"id\": 2}]", to: "d.json")
        let journal = path("done")
        try await run("GET BASE/{{id}}")("--each", rows, "--done", journal)
        try await run("GET BASE/{{id}}")("--each", rows, "--done", journal)
        #expect(paths == ["/1", "/1", "/2"])
        #expect(try content("done").split(separator: "\n").count == 3)
    }

    /// A cell with quotes stays one string of a JSON body.
    @Test func aCellAddsNoMemberToABody() async throws {
        let rows = try write(
            "name\n\"x\"\", \"\"role\"\": \"\"admin\"\", \"\"y\"\": \"\"\"\n\"5\"\" pipe\"\n", to: "d.csv")
        let text = "POST BASE/\nContent-Type: application/json\n\n{\"name\": \"{{name}}\", \"role\": \"user\"}"
        try await run(text)("--each", rows)
        let bodies = server.recordedRequests.compactMap {
            try? JSONSerialization.jsonObject(with: Data($0.bodyText.utf8))
        }
        #expect(bodies.count == 2 && bodies.allSatisfy { ($0 as? [String: String])?["role"] == "user" })
    }
}
