import Foundation
import Testing

@Suite final class ReportRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { request in
            switch request.path {
            case "/login": .json(#"{"token": "t0k", "id": 7}"#)
            case "/there": .redirect(to: "/7?token=hidden3")
            // The body contains the password of the file, and HTML.
            case "/none": .status(404, body: "hidden1 <script>alert(1)</script>")
            default: .status(200, body: "four")
            }
        }
    }

    private static let chain = """
        @password = hidden1
        # @name login
        POST BASE/login?api_key=hidden2
        Authorization: Basic me {{password}}

        ###
        # @name profile
        GET BASE/{{login.response.body.$.id}}
        Authorization: Bearer {{login.response.body.$.token}}
        ###
        GET BASE/there?x={{login.response.body.$.id}}
        ###
        # @name missing
        GET BASE/none
        ###
        # @name unsent
        GET BASE/{{missing.response.body.$.id}}
        ###
        # @expect status 201
        GET BASE/checked
        """

    @Test func aReportWithoutEventsFails() async throws {
        try await convoy(
            "report", write("name,ms\n", to: "rows.csv"), "--html", path("page.html"), status: 1,
            errors: "contains no events")
        #expect(!FileManager.default.fileExists(atPath: path("page.html")))
    }

    @Test func theEventsOfARunAreALineEachInOrder() async throws {
        let ending = try await run(Self.chain)("--json", status: 1, prints: ["!hidden1", "!t0k"], errors: "")
        #expect(ending.events.count == ending.output.split(separator: "\n").count)
        #expect(ending.steps.first == "started")
        #expect(ending.steps.last == "summary")
        for index in 0..<6 {
            let steps = ending.events.filter { $0["index"] as? Int == index }.compactMap { $0["event"] as? String }
            let expected =
                switch index {
                case 2: ["started", "redirect", "finished"]
                case 3, 5: ["started", "failed"]
                case 4: ["failed"]
                default: ["started", "finished"]
                }
            #expect(steps == expected, "\(index)")
        }
        let unsent = try #require(ending.events(named: "failed").first { $0["name"] as? String == "unsent" })
        #expect(unsent["code"] as? String == "dependencyFailed")
        #expect((unsent["after"] as? [Int])?.contains(3) == true)
        #expect(ending.events(named: "failed").compactMap { $0["code"] as? String }.contains("checkFailed"))
        #expect(ending.values("summary", "succeeded", "failed", "unsent", "exit_status") == "3 2 1 1")
    }

    @Test func thePageOfARunShowsItsEventsWithoutSecrets() async throws {
        let ending = try await run(Self.chain)(
            "--json", "--report", path("own.html"), "--har", path("a.har"), status: nil)
        let report = try await convoy("report", write(ending.output, to: "a.jsonl"), "--html", path("joined.html"))
        #expect(report.output.hasPrefix("6 requests in 1 run, 2 failed, 1 not sent, 3 succeeded, "))
        #expect(report.errors == "")
        let (own, joined) = (try PageReading(file: path("own.html")), try PageReading(file: path("joined.html")))
        for key in ["outcomes", "failures", "requests", "bytes", "attempts", "redirects", "span", "path", "pathTime"] {
            #expect("\(own.data[key] ?? 0)" == "\(joined.data[key] ?? 1)", "\(key)")
        }
        #expect(own.facts() == joined.facts())
        #expect(own.rows.count == 6)
        #expect(own.data["bytes"] as? Int == ending.events.last?["bytes"] as? Int)
        let path = try #require(own.paths).map { own.names()[$0] }
        #expect(path.first == "login")
        #expect(path.count >= 2)
        let secrets = ["hidden1", "hidden2", "hidden3", "t0k", "Bearer"]
        for file in ["own.html", "joined.html", "a.har"] {
            let text = try content(file)
            for secret in secrets { #expect(!text.contains(secret), "\(file) \(secret)") }
        }
    }

    @Test func thePageOfAFetchHasItsSums() async throws {
        let urls = ["/a?sig=hidden2", "/b", "/none", "/there"].map(url)
        let ending = try await fetch("--json", "--report", path("f.html"), urls, status: 1)
        let page = try PageReading(file: path("f.html"))
        let summary = try #require(ending.events.last)
        #expect(page.count("succeeded") == summary["succeeded"] as? Int)
        #expect(page.count("failed") == 1)
        #expect(page.data["bytes"] as? Int == summary["bytes"] as? Int)
        #expect(page.data["redirects"] as? Int == 1)
        #expect(page.paths == [])
        let text = try content("f.html")
        #expect(!text.contains("hidden2"))
        #expect(!text.contains("<script>alert"))
        #expect((page.data["title"] as? String)?.hasPrefix("convoy fetch --no-config --directory-prefix ") == true)
        let failed = try #require(ending.events(named: "failed").first)
        #expect(failed["body"] == nil && !text.contains("hidden1"))
        #expect((failed["head"] as? [String])?.contains("Content-Length: 33") == true)
        for event in ending.events(named: "finished") {
            let timeline = try #require(event["timeline"] as? [[String: Any]])
            let phases = timeline.map { attempt in
                ["lookup", "connect", "tls", "wait", "receive"].reduce(0) { $0 + (attempt[$1] as? Double ?? 0) }
            }
            #expect(phases.reduce(0, +) <= (event["life_seconds"] as? Double ?? 0) + 1e-5)
        }
    }

    @Test func aPageThatCannotBeWrittenIsAFailure() async throws {
        try await convoy(
            "fetch", "--discard", "--report", path("no/x.html"), url("/a"), status: 1,
            errors: "x.html cannot be written: No such file or directory")
        try await convoy("report", write("{}\n", to: "e.jsonl"), "--html", path("no/x.html"), status: 1)
    }

    @Test func aMissingFileOfEventsIsAUsageError() async throws {
        try await convoy("report", path("none.jsonl"), "--html", path("x.html"), status: 2, errors: "none.jsonl")
        #expect(try !directory.names().contains("x.html"))
    }

    @Test func secretFieldsOfAFailedResponseAreNotKept() async throws {
        server.route("/echo") { _ in
            .status(
                403, headerFields: [("Set-Cookie", "a=hidden4"), ("Location", "/x?token=hidden5"), ("X-Seen", "17")],
                body: "no: /echo?sig=hidden6, hidden7")
        }
        let ending = try await convoy(
            "fetch", "--discard", "--json", "--report", path("e.html"), "-H", "X-Api-Key: hidden7",
            url("/echo?sig=hidden6"), status: 1)
        let failed = try #require(ending.events(named: "failed").first)
        let head = try #require(failed["head"] as? [String])
        #expect(head.contains("X-Seen: 17"))
        #expect(head.contains { $0.hasPrefix("Location: /x?token=") })
        let text = try content("e.html")
        for secret in (4...7).map({ "hidden\($0)" }) {
            #expect(!text.contains(secret), "\(secret)")
            #expect(!ending.output.contains(secret), "\(secret)")
        }
    }

    @Test func twoFilesAreCompared() async throws {
        let line = #"{"event":"finished","index":0,"method":"GET","url":"http://a/1"}"#
        let failed = #"{"event":"failed","index":0,"method":"GET","url":"http://a/1","code":"timedOut"}"#
        try await convoy(
            "report", "--compare", write(line, to: "x.jsonl"), write(failed, to: "y.jsonl"), "--html", path("c.html"),
            prints: ["\n1 request in both, 1 fails now\n$", "y.jsonl: 1 request in 1 run, 1 failed, "])
        #expect(try PageReading(file: path("c.html")).rows.count == 2)
    }

    @Test func standardInputIsRead() async throws {
        let pipe = Pipe()
        try pipe.fileHandleForWriting.write(contentsOf: Data(#"{"event":"finished","index":0}"#.utf8))
        try pipe.fileHandleForWriting.close()
        let ending = try await convoy("report", "-", input: pipe, status: nil)
        #expect(ending.output == "1 request in 1 run, 1 succeeded, 0 B, 0 ms\n")
    }
}
