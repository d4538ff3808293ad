import Foundation
import Testing

@testable import ConvoyCommand

@Suite final class RunShowingTests: CommandTests {
    private static let text = "# @name one\nGET BASE/1\n###\n# @name two\nGET BASE/2\n\n>>! two.json\n"

    override init() throws {
        try super.init()
        server.respond { request in
            request.path == "/refused"
                ? .status(403, headerFields: [("X-A", "b")], body: "{\"why\":\"no\"}")
                : .status(200, headerFields: [("X-A", "b")], body: "{\"path\":\"\(request.path)\"}")
        }
    }

    @Test func bodiesAreInAPipeAsTheyCame() async throws {
        try await run(Self.text)(
            "--serial", "--show", "body", prints: #"^{"path":"/1"}{"path":"/2"}$"#,
            errors: ["200  GET \(url("/1"))  (one)  ", "2 responses, "])
        let refused = "GET BASE/refused\n###\n# @expect body.$.path == 3\nGET BASE/1\n"
        try await run(refused)("--serial", "--show", "body", status: 1, prints: #"^{"why":"no"}{"path":"/1"}$"#)
    }

    @Test func headsStandBeforeBodies() async throws {
        try await run(Self.text)("--show", "both", "one", prints: ["^HTTP 200 OK\nX-A: b\n", "\n\n{\"path\":\"/1\"}$"])
        try await run(Self.text)("--show", "head", "one", prints: ["\n\n$", "!path"])
    }

    @Test func oneBodyIsPrinted() async throws {
        #expect(try await run(Self.text)("-o", "two=-").output == #"{"path":"/2"}"#)
        for (arguments, words) in [
            (["-o", "tow=-"], "no request of this run is called tow"), (["-o", "two=x"], ">> FILE"),
            (["--show", "body", "--json"], "both write to standard output"), (["--show", "bdy"], "head, body or both"),
        ] {
            try await run(Self.text)(arguments, status: 2, errors: [words])
        }
    }

    @Test func jsonIsInLinesOnATerminal() {
        let text = PrettyJSON(#"{"a":[1,{"b":"x\"y"}],"c":{},"d":[ ],"e":-1.50e3}"#, hasColour: false)?.text
        #expect(
            text == """
                {
                  "a": [
                    1,
                    {
                      "b": "x\\"y"
                    }
                  ],
                  "c": {},
                  "d": [],
                  "e": -1.50e3
                }
                """)
        #expect(PrettyJSON("{", hasColour: false) == nil)
        #expect(
            PrettyJSON(#"{"a":1}"#, hasColour: true)?.text == "{\n  \u{1B}[34m\"a\"\u{1B}[m: \u{1B}[33m1\u{1B}[m\n}")
    }
}
