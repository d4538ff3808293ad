import Foundation
import Testing

@Suite final class RunRunningTests: CommandTests {
    /// The chain of requests from the documentation of REST Client.
    private static let chain = """
        @baseUrl = BASE/api

        # @name login
        POST {{baseUrl}}/api/login HTTP/1.1
        Content-Type: application/x-www-form-urlencoded

        name=foo&password=bar

        ###

        @authToken = {{login.response.headers.X-AuthToken}}

        # @name createComment
        POST {{baseUrl}}/comments HTTP/1.1
        Authorization: {{authToken}}
        Content-Type: application/json

        {
            "content": "fake content"
        }

        ###

        @commentId = {{createComment.response.body.$.id}}

        # @name getCreatedComment
        GET {{baseUrl}}/comments/{{commentId}} HTTP/1.1
        Authorization: {{authToken}}

        ###

        # @name getReplies
        GET {{baseUrl}}/comments/{{commentId}}/replies HTTP/1.1
        Accept: application/xml
        """

    @Test func theChainRunsInItsOrderAndItsEndsAtTheSameTime() async throws {
        let gate = Gate()
        server.respond { request in
            switch (request.method, request.path) {
            case ("POST", "/api/api/login"):
                request.bodyText == "name=foo&password=bar"
                    ? .status(200, headerFields: [("X-AuthToken", "t0k")]) : .status(403)
            case ("POST", "/api/comments"):
                request.value(of: "Authorization") == "t0k" ? .json(#"{"id": 17}"#) : .status(403)
            case ("GET", "/api/comments/17"), ("GET", "/api/comments/17/replies"): .json("{}").stalling(until: gate)
            default: .status(404)
            }
        }
        let process = try ConvoyProcess(["run", "--retries", "0", write(Self.chain, to: "a.http")])
        // Both requests are running before the server responds to either.
        try await gate.reached(count: 2)
        gate.open()
        let ending = try await process.ended(status: 0, prints: "!t0k", errors: "")
        let paths = server.recordedRequests.map(\.path)
        #expect(paths.prefix(2) == ["/api/api/login", "/api/comments"])
        #expect(Set(paths.dropFirst(2)) == ["/api/comments/17", "/api/comments/17/replies"])
        let lines = ending.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 5)
        #expect(lines[0].hasPrefix("200  POST \(base)/api/api/login  (login)  0 B in "))
        #expect(lines[4].hasPrefix("4 responses, "))
    }

    @Test func aDryRunPrintsThePlanAndSendsNothing() async throws {
        let ending = try await run(Self.chain)("--dry-run")
        #expect(
            ending.output == """
                1  POST \(base)/api/api/login  (login)
                2  POST \(base)/api/comments  (createComment)  needs 1
                3  GET \(base)/api/comments/{{createComment.response.body.$.id}}  (getCreatedComment)  needs 1, 2
                4  GET \(base)/api/comments/{{createComment.response.body.$.id}}/replies  (getReplies)  needs 2

                """)
        #expect(server.connectionCount == 0)
    }

    @Test(arguments: [
        "GET http://256.256.256.256/a", "GET http://xn--a/", "GET http://h:99999/", "GET http://a\\@b/x",
        "GET http://h%2Fb/", "GET http://[::g]/", "HEAD http://h/\n\nbody",
        "GET http://h/\nHost: a\nHost: b",
    ])
    func aDryRunReportsTheErrorsOfARun(text: String) async throws {
        let (dry, real) = (try await run(text)("--dry-run", status: 2), try await run(text)(status: 2))
        #expect(dry.errors == real.errors)
    }

    @Test func dependentsOfAFailedRequestAreNotSent() async throws {
        server.respond { $0.path == "/other" ? .status(200) : .status(403, body: "{\"error\":\n \"who?\"}") }
        let ending = try await run(Self.chain + "\n###\nGET BASE/other\n")(status: 1)
        #expect(server.recordedRequests.map(\.path) == ["/api/api/login", "/other"])
        let file = path("a.http")
        let lines = ending.errors.split(separator: "\n").map(String.init)
        #expect(lines.count == 4)
        #expect(lines.first == "convoy: \(file):4: login: the server answered 403")
        #expect(lines[1] == "convoy: \(file):14: createComment: nothing was sent: login, which it depends on, failed")
        #expect(ending.output.contains("1 response, 0 B in "))
        #expect(ending.output.contains(", 1 failed, 3 not sent; exit status 1"))
    }

    @Test func allProblemsAreReportedAndNoRequestIsSent() async throws {
        let ending = try await run("GET BASE/{{x}}\n###\nGTE BASE/\n###\nGET BASE/\n\n< {% x %}\n")(status: 2)
        #expect(server.connectionCount == 0)
        let file = path("a.http")
        let column = base.count + 6
        #expect(
            ending.errors == """
                convoy: \(file):1:\(column): the variable ‘x’ has no value; write @x = …, or give --variable x=…
                convoy: \(file):3:1: unknown method GTE; did you mean GET?
                convoy: \(file):7:1: this script is not supported; use {{name.response.body.$.x}} for a value of a response and # @expect for a check, or give --skip-scripts
                convoy: 3 problems in \(file), so no request was sent; --skip-scripts skips the requests that need scripts

                """)
    }

    @Test func scriptsAreSkippedWithTheOption() async throws {
        server.respond { _ in .status(200) }
        let script = "while (true) client.global.set(\"t\", 1)"
        let text = "### a\nGET BASE/a\n\n> {% \(script) %}\n### b\nGET BASE/b/{{t}}\n"
        let ending = try await run(text)("--skip-scripts", status: 1, prints: ", 1 skipped; exit status 1")
        #expect(ending.errors.hasSuffix(": b is skipped: the variable ‘t’ has no value\n"))
        #expect(server.recordedRequests.map(\.path) == ["/a"])
    }

    @Test func namesChooseRequestsAndTheirDependencies() async throws {
        server.respond { _ in .json("{\"x\": 1}") }
        let text = "# @name a\nGET BASE/a\n###\n# @name b\nGET BASE/b/{{a.response.body.$.x}}\n### see\nGET BASE/c\n"
        try await run(text)("b")
        #expect(server.recordedRequests.map(\.path) == ["/a", "/b/1"])
        try await run(text)("sea", status: 2, errors: "no request is called ‘sea’; did you mean see?")
    }

    @Test func answersGoToFilesAndAreReferredToThere() async throws {
        server.respond { $0.path == "/a" ? .json(#"{"id": 5}"#) : .status(200, body: $0.bodyText) }
        try write("old", to: "old.txt")
        let text = """
            # @name a
            GET BASE/a

            >> sub/a.json
            ###
            POST BASE/b

            {{a.response.body.$.id}}

            >> old.txt
            ###
            POST BASE/b/{{a.response.body.$.id}}

            new

            >>! out-{{a.response.body.$.id}}.txt
            """
        try await run(text)(prints: ["  saved old-1.txt\n", "  saved sub/a.json\n"])
        #expect(try content("sub/a.json") == #"{"id": 5}"#)
        #expect(try content("old.txt") == "old")
        #expect(try content("old-1.txt") == "5")
        #expect(try content("out-5.txt") == "new")
    }

    @Test func severalAttemptsAreCountedInTheLine() async throws {
        server.enqueue([.status(503), .status(200), .status(503), .status(503)])
        let ending = try await run("GET BASE/a\n###\nGET BASE/b\n")("--serial", "--retries", "1", status: 1)
        #expect(ending.output.contains(/(?m)^200  GET .*\/a .* \(2 attempts\)$/), "\(ending.output)")
        #expect(ending.errors.contains(/(?m)503.* \(2 attempts\)$/), "\(ending.errors)")
    }

    @Test(arguments: [
        "{\"v\": \"../x\"}", "{\"v\": \"/tmp/x\"}", "{\"v\": \"a/b\"}", "{\"v\": \"\"}", "{\"v\": \"..\"}",
    ])
    func noValueLeadsOutOfTheOutputDirectory(body: String) async throws {
        server.respond { _ in .json(body) }
        _ = try directory.makeDirectory("out")
        let text = "# @name a\nGET BASE/a\n###\nGET BASE/b\n\n>> {{a.response.body.$.v}}\n"
        try await run(text)("-P", path("out"), status: 1)
        #expect(server.recordedRequests.map(\.path) == ["/a"])
        #expect(try directory.names() == ["a.http", "out"])
        #expect(try directory.names(in: "out") == [])
    }

    @Test(arguments: ["link/a", "link/sub/a"]) func noLinkLeadsOutOfTheOutputDirectory(name: String) async throws {
        server.respond { _ in .status(200, body: "x") }
        _ = try directory.makeDirectory("out")
        _ = try directory.makeDirectory("secret")
        try FileManager.default.createSymbolicLink(
            atPath: path("out/link"), withDestinationPath: path("secret"))
        try await run("GET BASE/\n\n>> \(name)\n")(
            "-P", path("out"), status: 1, errors: "\(name) is a link out of the output directory")
        #expect(try directory.names(in: "secret") == [])
        #expect(server.requestCount == 0)
    }

    @Test func aLinkOfTheNameIsReplacedAndNotFollowed() async throws {
        server.respond { _ in .json("{}") }
        try write("old", to: "secret")
        for name in ["a", "b"] {
            try FileManager.default.createSymbolicLink(atPath: path(name), withDestinationPath: "secret")
        }
        // The check of the second request needs the body in memory before the file is written.
        try await run("GET BASE/\n\n>>! a\n###\n# @expect status 200\nGET BASE/\n\n>>! b\n")()
        #expect(try content("secret") == "old")
        #expect(try content("a") == "{}")
        #expect(try content("b") == "{}")
        #expect(try directory.names() == ["a", "a.http", "b", "secret"])
    }

    @Test func noValueAddsFieldsOrRequests() async throws {
        server.respond { _ in .json(#"{"v": "x HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET /evil"}"#) }
        let text = """
            # @name a
            GET BASE/a
            ###
            GET BASE/b
            X: {{a.response.body.$.v}}
            ###
            GET BASE/c/{{a.response.body.$.v}}
            """
        try await run(text)(status: 1, errors: "the value of {{a.response.body.$.v}} contains a line end")
        #expect(
            server.recordedRequests.map(\.path) == [
                "/a", "/c/x%20HTTP%2F1.1%0D%0AX-Evil%3A%201%0D%0A%0D%0AGET%20%2Fevil",
            ])
        #expect(server.recordedRequests.allSatisfy { $0.value(of: "X-Evil") == nil })
    }

    @Test func environmentsAreFoundBesideAndAbove() async throws {
        server.respond { _ in .status(200) }
        let environments = #"{"$shared": {"v": "v1"}, "dev": {"base": "BASE"}, "live": {"v": "v2"}}"#
        try write(environments, to: "http-client.env.json")
        try write(#"{"dev": {"token": "s3cret"}}"#, to: "http-client.private.env.json")
        try write("WHO=ada\n", to: ".env")
        _ = try directory.makeDirectory("sub")
        try await convoy(
            "run", write("GET {{base}}/", to: "sub/a.http"), status: 2,
            errors: "the variable ‘base’ has no value; write @base")
        _ = try directory.makeDirectory(".git")
        let file = try write(
            "GET {{base}}/{{v}}/{{$dotenv WHO}}?t={{token}}\nAuthorization: {{token}}\n", to: "sub/b.http")
        try await convoy("run", "--env", "dev", file, prints: "!s3cret")
        #expect(server.recordedRequests.first?.target == "/v1/ada?t=s3cret")
        #expect(server.recordedRequests.first?.value(of: "Authorization") == "s3cret")
        try await convoy("run", file, status: 2, errors: "the variable ‘base’ has no value; give --env dev")
        try await convoy(
            "run", "--env", "prod", file, status: 2,
            errors: "no environment is called ‘prod’; the environments are dev, live")
    }

    @Test func theOnlyEnvironmentCounts() async throws {
        try write(#"{"$shared": {"a": "b"}, "dev": {"host": "http://one"}}"#, to: "http-client.env.json")
        try await run("GET {{host}}/a\n")("--dry-run", prints: "^1  GET http://one/a")
    }

    @Test func cookiesAreStoredUnlessARequestTurnsThatOff() async throws {
        server.respond { _ in .status(200, headerFields: [("Set-Cookie", "a=b")]) }
        let text = """
            POST BASE/login
            ###
            GET BASE/with
            ###
            # @no-cookie-jar
            GET BASE/without
            """
        try await run(text)()
        let cookies = Dictionary(
            uniqueKeysWithValues: server.recordedRequests.map { ($0.path, $0.value(of: "Cookie")) })
        #expect(cookies == ["/login": nil, "/with": "a=b", "/without": nil])
    }

    @Test func redirectsAreFollowedUnlessARequestTurnsThatOff() async throws {
        server.respond { $0.path == "/end" ? .status(200) : .redirect(to: "/end") }
        try await run("GET BASE/a\n###\n# @no-redirect\nGET BASE/b\n")("--serial", prints: "302  GET \(base)/b  ")
        #expect(server.recordedRequests.map(\.path) == ["/a", "/end", "/b"])
    }

    @Test func aFailedCheckIsAFailedRequest() async throws {
        server.respond { $0.path == "/missing" ? .status(404) : .json(#"{"id": 3}"#) }
        let text = """
            # @name a
            # @expect status 2xx
            # @expect body.$.id == 4
            GET BASE/a
            ###
            # @ref a
            GET BASE/b
            ###
            # @assert status == 404
            GET BASE/missing
            ###
            # @expect header content-type contains json
            # @expect time < 60s
            GET BASE/c
            """
        try await run(text)(
            "--junit", path("junit.xml"), status: 1, prints: "2 responses, ",
            errors: [
                ":4: a: expected body.$.id == 4, but found ‘3’\n", "nothing was sent: a, which it depends on, failed",
            ])
        let xml = try content("junit.xml")
        #expect(xml.contains(" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\" "))
        #expect(xml.contains("<failure message=\"expected body.$.id == 4, but found ‘3’\"/></testcase>"))
        #expect(xml.contains("<skipped message=\"nothing was sent: a, which it depends on, failed\"/></testcase>"))
        #expect(Set(server.recordedRequests.map(\.path)) == ["/a", "/missing", "/c"])
    }

    /// A response may repeat a secret that was sent.
    @Test func noOutputQuotesAResponse() async throws {
        server.respond { _ in .status(403, body: Data("no token 1234".utf8)) }
        try await run("GET BASE/a\n")("--junit", path("junit.xml"), status: 1, errors: ["403", "!1234"])
        let xml = try content("junit.xml")
        #expect(xml.contains("<failure message=") && !xml.contains("1234"))
    }

    /// The label of the request shows the placeholder, so the line must not show the value.
    @Test(arguments: [[], ["--json"]])
    func aFailureRepeatsNoSecretOfAnEarlierResponse(options: [String]) async throws {
        server.respond { request in
            request.path == "/login"
                ? .status(200, body: #"{"access_token": "at-12345"}"#)
                : .redirect(to: "ftp://a.example\(request.path)")
        }
        let text = "# @name login\nGET BASE/login\n\n###\nGET BASE/of/{{login.response.body.$.access_token}}\n"
        let ending = try await run(text)(options, status: 1, prints: "!at-12345", errors: "!at-12345")
        #expect(server.recordedRequests.map(\.path) == ["/login", "/of/at-12345"])
        #expect((ending.output + ending.errors).contains("ftp://a.example/of/<redacted>"))
    }

    @Test func bodiesOfAllKindsArriveAsWritten() async throws {
        server.respond { _ in .status(200) }
        try write("file", to: "f.txt")
        try write("<{{who}}>", to: "t.txt")
        let text = """
            POST BASE/1

            < f.txt
            ###
            POST BASE/2

            <@ t.txt
            ###
            POST BASE/3
            Content-Type: multipart/form-data; boundary=abc

            --abc
            Content-Disposition: form-data; name="f"; filename="f.txt"

            < ./f.txt
            --abc--
            ###
            curl BASE/4 -H 'A: b' -d x=1
            """
        try await run(text)("--variable", "who=ada")
        let requests = server.recordedRequests
        #expect(requests.map(\.path) == ["/1", "/2", "/3", "/4"])
        #expect(
            requests.map(\.bodyText) == [
                "file", "<ada>",
                "--abc\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\r\nfile\r\n--abc--", "x=1",
            ])
        #expect(requests.last?.value(of: "A") == "b")
    }

    /// Reading a pipe could wait forever, and a device has no end, so both are rejected.
    @Test(arguments: ["<", "<@"]) func onlyFilesAreBodies(mark: String) async throws {
        let pipe = path("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        for path in [pipe, "/dev/zero"] {
            let ending = try await run("POST BASE/\n\n\(mark) \(path)")(status: 2)
            // The message omits the end of a long path.
            #expect(ending.errors.contains("the file ‘\(path.prefix(40))"), "\(ending.errors)")
            #expect(ending.errors.contains("’ cannot be read: it is not a file"), "\(ending.errors)")
        }
        #expect(server.requestCount == 0)
    }

    @Test func anInterruptionCancelsRunningAndWaitingRequests() async throws {
        let gate = Gate()
        server.respond { _ in .status(200).stalling(until: gate) }
        let file = try write("# @name a\nGET BASE/a\n###\n# @ref a\nGET BASE/b\n", to: "a.http")
        let process = try ConvoyProcess(["run", file])
        try await gate.reached()
        process.send(SIGINT)
        try await process.ended(
            status: 130, prints: ["^interrupted: 0 responses, 0 B in ", ", 2 cancelled; exit status 130"], errors: "")
        gate.open()
        #expect(server.requestCount == 1)
    }

    @Test(arguments: [
        ("", "a file is missing; write convoy run FILE.http"),
        ("nope.http", "cannot read nope.http: No such file or directory"),
        ("--variable x a.http", "--variable takes NAME=VALUE; the name or the = is missing"),
        ("--serial --parallel-unsafe a", "--serial and --parallel-unsafe exclude each other; remove one of them"),
        ("--jobs 0 a.http", "--jobs takes a number from 1 to 256, not \"0\""),
        ("--seriel a.http", "unknown option --seriel; did you mean --serial?"),
    ])
    func mistakesOfTheCommandLineAreReported(line: String, words: String) async throws {
        try await convoy(
            "run", line.shellWords ?? [], status: 2, errors: "^convoy: \(words)\nTry 'convoy run --help'.\n$")
    }

    @Test func aFileOfRequestsNeedsNoCommand() async throws {
        server.respond { _ in .status(200) }
        try await convoy(write("GET BASE/a\n", to: "a.http"))
        #expect(server.requestCount == 1)
    }

    @Test func aRequestThatIsSentAsABodyIsAHint() async throws {
        server.respond { _ in .status(200) }
        try await run("POST BASE/a\n\nGET BASE/b\n")(
            errors: "a.http:3:1: this line looks like a request, but is sent in the body of the request above")
        #expect(try await server.takeRequest().target == "/a" && server.requestCount == 1)
        let events = try await run("POST BASE/a\n\nGET BASE/b\n")("--json").events(named: "warning")
        #expect((events.first?["message"] as? String)?.contains("write ### on a line before it") == true)
    }
}

/// Tests which fields `convoy run` sends to a server that a response chose, not the file.
@Suite final class RunSecretsTests: CommandTests {
    /// A server on another port, which is therefore another origin.
    private let other: TestServer

    override init() throws {
        other = try TestServer()
        try super.init()
        other.respond { _ in .status(200, body: "taken") }
    }

    @Test func anAnswerThatNamesTheHostGetsNoSecret() async throws {
        let host = "127.0.0.1:\(other.port)"
        server.respond { _ in .json("{\"host\": \"\(host)\"}") }
        let first = "@h = {{a.response.body.$.host}}\n# @name a\nGET BASE/a\n###\n"
        for request in ["GET http://{{a.response.body.$.host}}/x\n", "GET /x\nHost: {{h}}\n", "GET http://{{h}}/x\n"] {
            try await run(first + request + "Authorization: Bearer s3cret\n")(
                status: 1, prints: "!s3cret",
                errors: ["leads to another server, ‘http://\(host)’", "the field Authorization", "!s3cret"])
        }
        #expect(other.requestCount == 0)
        try await run(first + "GET http://{{h}}/x\nAccept: text/plain\n")()
        #expect(other.requestCount == 1)
    }

    @Test func aValueOfAnAnswerIsOnePartOfAPath() async throws {
        server.respond { _ in .json(#"{"id": "../admin?x=1", "page": "a=1&b=2"}"#) }
        try await run(
            "# @name a\nGET BASE/a\n###\nGET BASE/users/{{a.response.body.$.id}}/x?q={{a.response.body.$.page}}"
                + "&{{&a.response.body.$.page}}")()
        #expect(server.recordedRequests.last?.target == "/users/..%2Fadmin%3Fx%3D1/x?q=a%3D1%26b%3D2&a=1&b=2")
    }
}
