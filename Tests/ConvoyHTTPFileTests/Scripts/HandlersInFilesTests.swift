import ConvoyHTTPFile
import Testing

/// Tests variables that handlers set, and the requests that wait for them.
@Suite struct HandlersInFilesTests {
    private static let login = """
        ### log in
        POST http://h/login

        > {%
            client.global.set("token", response.body.token);
        %}

        """

    @Test func aRequestWaitsForTheHandlerThatSetsItsVariable() throws {
        let text = Self.login + "###\nGET http://h/me\nAuthorization: Bearer {{token}}\n###\nGET http://h/"
        let plan = plan(text)
        #expect(plan.problems == [])
        #expect(plan.requests.map(\.needs) == [[], [0], []])
        // The handler reads the body when it runs. No request refers to the body, so the run does not keep it.
        #expect(!plan.requests[0].keepsBody)
        var login = exchange()
        login.globals["token"] = .string("abc")
        let built = try plan.requests[1].build(surroundings()) { $0 == plan.requests[0].request.key ? login : nil }
        #expect(built.value(of: "Authorization") == "Bearer abc")
        let failure = #expect(throws: Defect.self) {
            _ = try plan.requests[1].build(surroundings()) { _ in exchange() }
        }
        #expect(failure?.what == "{{token}}: the response handler of its request has not set it")
    }

    private static let refresh =
        "###\nPOST http://h/refresh?{{token}}\n\n> {% client.global.set('token', response.body.t) %}\n"
    private static let clear = "###\nPOST http://h/logout\n\n> {% client.global.clearAll(); %}\n"
    private static let use = "###\nGET http://h/{{token}}\n"

    @Test(
        arguments: [
            (login + login + use + login, [[], [], [1], []]), (use + login, [[], [0]]),
            (
                "@auth = {{token}}\n" + login + "###\nGET http://h/{{auth}}\n" + login + "###\nGET http://h/{{auth}}",
                [[], [0], [], [2]]
            ),
            // A handler that sets a variable of its request needs an earlier one.
            (login + refresh + refresh, [[], [0], [1]]), (login + use + clear, [[], [0], []]),
        ] as [(String, [[Int]])]) func theLastHandlerBeforeCounts(text: String, needs: [[Int]])
    {
        let plan = plan(text)
        #expect(plan.problems == [])
        #expect(plan.requests.map(\.needs) == needs)
    }

    @Test(arguments: [refresh, login + clear + use]) func aVariableThatNoHandlerHasSetHasNoValue(text: String) {
        #expect(plan(text).problems.map(\.what) == ["the variable ‘token’ has no value"])
    }

    @Test func aHandlerWaitsForTheValuesItReads() throws {
        let text =
            Self.login + """
                ###
                GET http://h/

                > {%
                  client.assert(response.body.token === client.global.get("token"));
                %}
                """
        let plan = plan(text)
        #expect(plan.requests.map(\.needs) == [[], [0]])
        var login = exchange()
        login.globals["token"] = .number("7")
        #expect(plan.requests[1].globals { _ in login } == ["token": .number("7")])
        #expect(plan.requests[1].globals { _ in nil } == [:])
    }

    @Test func theCommandLineCountsOverAHandler() throws {
        let values = surroundings { $0.given = ["token": "mine"] }
        let plan = plan(Self.login + "###\nGET http://h/{{token}}", values)
        #expect(plan.requests.map(\.needs) == [[], []])
        #expect(try plan.requests[1].build(values).url == "http://h/mine")
    }
}
