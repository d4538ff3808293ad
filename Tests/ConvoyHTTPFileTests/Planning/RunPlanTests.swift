import Testing

@testable import ConvoyHTTPFile

/// Tests which requests wait for which other requests.
@Suite struct RunPlanTests {
    private static let chain = file(
        "POST http://h/", "@t = {{a.response.headers.X}}\nPOST http://h/\nX: {{t}}",
        "@i = {{b.response.body.$.id}}\nGET http://h/{{i}}\nX: {{t}}", "GET http://h/{{i}}")

    private func edges(_ text: String, _ change: (inout RunPlan.Wishes) -> Void = { _ in }) -> [String] {
        let plan = plan(text, surroundings(), change)
        #expect(plan.problems == [])
        return plan.requests.map { request in
            let needs = request.needs.map { plan.requests[$0].label }.joined(separator: ",")
            let follows = request.follows.map { plan.requests[$0].label }.joined(separator: ",")
            return "\(request.label): \(needs); \(follows)"
        }
    }

    @Test func referencesOfTheChainAreDependencies() {
        #expect(edges(Self.chain) == ["a: ; ", "b: a; ", "c: a,b; ", "d: b; "])
        let plan = plan(Self.chain)
        #expect(plan.requests.map(\.keepsBody) == [false, true, false, false])
    }

    @Test func itsXPathIsRefusedWithItsPlace() {
        let text = Self.file("GET http://h/", "GET http://h/{{a.response.body.//reply[1]/@id}}")
        let problem = plan(text).problems.first
        #expect(problem?.kind == .impossible)
        #expect(problem?.position == Position(line: 4, column: 14))
        let skipping = plan(text, surroundings { $0.skipsScripts = true })
        #expect(skipping.problems == [])
        #expect(skipping.requests.count == 1)
        #expect(skipping.leftOut.map { "\($0.label): \($0.reason)" } == ["b: XPath is not supported"])
    }

    private static let mixed = file(
        "GET https://one/a", "GET https://one/b", "POST https://one/c", "DELETE https://ONE:443/d", "GET https://one/e",
        "POST https://two/f", "GET https://one/g")

    /// Requests that are called a, b, c and so on.
    private static func file(_ requests: String...) -> String {
        zip("abcdefg", requests).map { "### \($0)\n\($1)\n" }.joined()
    }

    @Test(
        arguments: [
            (mixed, ["a: ; ", "b: ; ", "c: ; a,b", "d: ; c", "e: ; d", "f: ; ", "g: ; d"]),
            // A file is written by one request at a time.
            (
                file("GET http://h/\n\n>> x", "GET http://i/\n\n>> y", "GET http://j/\n\n>>! x"),
                ["a: ; ", "b: ; ", "c: ; a"]
            ),
            // A request with an origin of a response comes after all changes.
            (
                file(
                    "GET http://one/", "POST http://one/", "POST http://two/", "GET {{a.response.body.$.next}}",
                    "POST {{a.response.body.$.next}}", "GET http://one/"),
                ["a: ; ", "b: ; a", "c: ; ", "d: a; b,c", "e: a; b,c,d", "f: ; e"]
            ), (outOfOrder, ["c: ; ", "a: c; ", "b: c,a; "]),
        ] as [(String, [String])]) func requestsKeepTheOrderThatTheyNeed(text: String, order: [String])
    { #expect(edges(text) == order) }

    private static let outOfOrder = file(
        "POST http://h/{{c.response.body.*}}", "# @depends a, c\nPOST http://h/", "POST http://h/")

    @Test func theOrderOfUnsafeRequestsCanBeChosen() {
        #expect(edges(Self.mixed) { $0.mixesUnsafe = true }.allSatisfy { $0.hasSuffix(": ; ") })
        #expect(edges(Self.mixed) { $0.isSerial = true }.dropFirst().map { $0.last } == ["a", "b", "c", "d", "e", "f"])
        #expect(edges(Self.outOfOrder) { $0.isSerial = true } == ["c: ; ", "a: c; ", "b: c,a; "])
    }

    @Test func namedRequestsIncludeTheirDependencies() {
        #expect(edges(Self.chain) { $0.names = ["d"] }.count == 3)
        #expect(edges(Self.mixed) { $0.names = ["d", "g"] } == ["d: ; ", "g: ; d"])
        let plan = plan(Self.mixed, surroundings()) { $0.names = ["x", "aa"] }
        #expect(plan.problems.map(\.what) == ["no request is called ‘x’", "no request is called ‘aa’"])
    }

    /// A plan for named requests ignores mistakes in other requests.
    @Test func mistakesInOtherRequestsDoNotStopNamedOnes() {
        let text = Self.file("GET http://h/", "GET http://h/{{x}}", "GET http://h/\n\n> {% x %}")
        #expect(plan(text, surroundings()) { $0.names = ["a"] }.problems == [])
        #expect(plan(text).problems.count == 2)
    }

    @Test func eachCycleIsReportedOnceWithItsPosition() {
        let text = Self.file(
            "GET http://h/{{b.response.body.*}}", "GET http://h/{{c.response.body.*}}", "# @ref a\nGET http://h/",
            "GET http://h/{{d.response.body.*}}")
        let problems = plan(text).problems
        #expect(
            problems.map(\.what) == ["‘a’ waits for itself: a needs b needs c needs a", "‘d’ needs its own response"])
        #expect(problems.map(\.position) == [Position(line: 2, column: 14), Position(line: 9, column: 14)])
    }

    @Test func aChainOfTenThousandIsPlannedWithoutRecursion() {
        var text = "# @name r0\nGET http://h/\n"
        for number in 1..<10_000 { text += "###\n# @name r\(number)\n# @ref r\(number - 1)\nGET http://h/\(number)\n" }
        let plan = plan(text)
        #expect(plan.problems == [])
        #expect(plan.requests.count == 10_000)
        #expect(plan.requests.last?.needs == [9_998])
    }

    @Test func disabledRequestsAreOmittedAndReportedAsMissing() {
        let text =
            "# @name a\n# @disabled\nGET http://h/{{nothing}}\n###\n# @ref a\nGET http://h/\n###\nGET http://h/c\n"
        #expect(plan(text).problems.map(\.what) == ["it needs ‘a’, which is disabled"])
        let skipping = plan(text, surroundings { $0.skipsScripts = true })
        #expect(skipping.requests.map(\.shownTarget) == ["http://h/c"])
    }

    @Test func skippedScriptsSkipTheirDependents() {
        let script = "\n\n> {% while (true) client.global.set('token', response.body.token); %}"
        let text = Self.file(
            "POST http://h/\n\n{}\(script)", "GET http://h/{{token}}", "# @ref b\nGET http://h/", "GET http://h/")
        #expect(plan(text).problems.count == 2)
        let skipping = plan(text, surroundings { $0.skipsScripts = true })
        #expect(skipping.problems == [])
        #expect(skipping.requests.map(\.label) == ["a", "d"])
        #expect(skipping.leftOut.map(\.label) == ["b", "c"])
        #expect(skipping.leftOut.last?.reason == "it needs ‘b’, which is skipped")
    }
}
