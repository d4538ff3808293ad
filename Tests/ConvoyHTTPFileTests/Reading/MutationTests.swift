import Convoy
import ConvoyHTTPFile
import Foundation
import Testing

/// Tests damaged files: reading and planning end, and every problem has a position in the file.
@Suite struct MutationTests {
    private static let corpus = """
        @host = {{$shared h}}:{{port}}
        ### Log in
        # @name login
        # @expect body.$.token exists
        POST https://{{host}}/a?b={{%name}}
          &c=d HTTP/1.1
        Content-Type: multipart/form-data; boundary=abcd
        Authorization: Basic {{u}} p

        --abcd
        Content-Disposition: form-data; name="x"

        {{$datetime 'YYYY-MM-DD [x]' -1 d}} {{$randomInt 1 9}}
        < ./f.txt
        --abcd--

        >>! out/{{login.response.body.$..a[0,-1]['b'][1:2]}}.json
        ###
        # @ref login
        curl 'https://h/' -H "A: {{login.response.headers.X}}" \\
          --data $'x\\u0041' -F a=@b
        > {% x %}
        ###
        GRAPHQL {{login.response.body.next}}

        query q($a: Int) { a(b: $a) }

        {"a": {{$timestamp 1 y}}}
        """

    private static let pieces = [
        "{{", "}}", "\\{", "$", "%", "###", "\n", "\r\n", "#", "//", "@", "<", "<@", ">", ">>", "> {%", "%}", ":", "=",
        "&", "\"", "'", "\\", "[", "]", "..", "0", "-1", "curl ", "GET ", " ", "\u{0}", "😀", "\u{301}", "name", "??",
        "{{$timestamp 999999999 y}}",
    ]

    /// `CONVOY_LONG=1` in the environment uses 200 seeds.
    private static let seeds = 0..<UInt64(LongRuns.count(8, long: 200))

    @Test(arguments: seeds) func damagedFilesAreReadToTheirEnd(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        let values = surroundings({ $0.given = ["u": "user", "name": "a b"] }, files: ["./f.txt": "x", "b": "y"])
        for _ in 0..<40 {
            var characters = Array(Self.corpus)
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                let place = Int.random(in: 0..<characters.count, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: characters.remove(at: place)
                case 1: characters.insert(contentsOf: Self.pieces.randomElement(using: &generator) ?? "", at: place)
                default: characters.removeLast(characters.count - place)
                }
                if characters.isEmpty { characters = ["x"] }
            }
            let text = String(characters)
            let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).count
            let plan = plan(text, values)
            for problem in plan.problems {
                #expect((1...lines + 1).contains(problem.position.line))
                #expect(problem.position.column >= 1)
                #expect(!problem.what.isEmpty)
            }
            let answer = exchange(#"{"a": [{"b": [1, 2]}], "next": "http://h/", "token": 1}"#, fields: ["X": "y"])
            for request in plan.requests { _ = try? request.build(values) { _ in answer } }
        }
    }

    /// Each of these files once exhausted the stack, or took quadratic time.
    @Test func longFilesAreReadToTheirEnd() {
        let count = 4_000
        let heads = String(repeating: "GET http://h/\n", count: count)
        #expect(HTTPFileReader.read(heads).requests.count == count)
        let body = "POST http://h/\n\n" + String(repeating: "a line of text\n", count: count)
        #expect(HTTPFileReader.read(body).requests.first?.body.count == 1)
        #expect(HTTPFileReader.read("curl http://h/ -" + String(repeating: "s", count: count)).problems == [])
        let chain = (0..<count).map { "@v\($0) = {{v\($0 + 1)}}\n" }.joined() + "@v\(count) = x\nGET http://h/{{v0}}\n"
        #expect(plan(chain).problems.first?.what.hasSuffix("is the end of a chain of more than 64 variables") == true)
        let open = (0..<1_000).map { "GET http://h/{{r\($0).response.body.*}}\n###\n" }.joined()
        #expect(plan(open).problems.count == 1_000)
    }

    @Test(arguments: seeds) func damagedJSONAndPathsAreRefusedOrRead(seed: UInt64) {
        var generator = SeededGenerator(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 7)
        let json = Array(#"{"a": [1, -2.5e3, "x\u00e9\n", true, null, {"b": []}], "c": "😀"}"#.utf8)
        for _ in 0..<200 {
            var bytes = json
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            if let value = JSONValue(json: bytes) { #expect(JSONValue(json: value.json.utf8) != nil) }
            var path = Array("$.a[0]['b'][1:9:-2]..c[*]")
            for _ in 0..<2 {
                path[Int.random(in: 0..<path.count, using: &generator)] =
                    "$.[]'\"*:-0129\\ua?@ ".randomElement(using: &generator) ?? "$"
            }
            if let value = JSONValue(json: json), let path = try? JSONPath(String(path)) { _ = path.nodes(in: value) }
        }
    }
}
