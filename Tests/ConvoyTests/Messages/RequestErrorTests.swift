import Foundation
import Testing

@testable import Convoy

@Suite struct RequestErrorTests {
    @Test func descriptionIsCodeRequestAndMessage() {
        let error = RequestError(.timedOut, "nothing arrived", request: "GET http://stub/")
        #expect("\(error)" == "timedOut: GET http://stub/: nothing arrived")
        #expect(error.localizedDescription == "\(error)")
        #expect("\(RequestError(.cancelled, "it was cancelled"))" == "cancelled: it was cancelled")
    }

    @Test(arguments: RequestError.Code.all)
    func theCodeDecidesWhetherARetryCanHelp(code: RequestError.Code) {
        let isRetryable = [.timedOut, .connectionFailed, .connectionLost].contains(code)
        #expect(RequestError(code, "").isRetryable == isRetryable)
        #expect(RequestError(code, "", isRetryable: !isRetryable).isRetryable != isRetryable)
    }

    @Test func detailsOfATransportsErrorAreKept() async throws {
        let told = RequestError(
            .badResponse, "m", request: "GET mine", response: ResponseHead(statusCode: 999), body: Data("b".utf8),
            underlying: CancellationError(), isRetryable: true)
        let server = StubServer { $0.answer(200, pieces: [], then: told) }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.request == "GET mine")
        #expect(error.response?.statusCode == 999)
        #expect(error.message == "m" && error.isRetryable && error.underlying is CancellationError)
        #expect(error.body == Data("b".utf8))
    }

    /// Text from a peer or a file name must not break a log line.
    @Test func descriptionIsOneLineWhateverTheMessage() {
        let error = RequestError(.badResponse, "first\nsecond\r\nthird", request: "GET http://stub/")
        #expect(error.description.isOneLine)
    }

    @Test func endWithoutAResponseIsABadResponse() async throws {
        let server = StubServer { $0.finish() }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.code == .badResponse)
        #expect(error.request == "GET http://stub/a" && error.response == nil)
    }
}

@Suite struct RequestErrorCodeTests {
    private static let source = LibrarySources.text("Sources/Convoy/Messages/RequestError+Code.swift")

    /// The last cell of a code's row on the page: whether policies retry the failure.
    private static func repetition(_ code: RequestError.Code) throws -> String {
        guard code != .unacceptableStatus else { return "by status code" }
        let request = try PreparedRequest.test()
        if RetryPolicy.standard.permits(RequestError(code, ""), of: request, retries: 0) { return "yes" }
        var policy = RetryPolicy.standard
        policy.errorCodes = [code]
        let isPermitted = policy.permits(RequestError(code, "", isRetryable: true), of: request, retries: 0)
        return isPermitted ? "if listed" : "never"
    }

    @Test func everyDeclarationIsInTheTable() {
        let names = Self.source.matches(of: #/static let (\w+) = Code\(\s*"(\w+)"/#)
        #expect(names.map { "\($0.output.1)" } == RequestError.Code.all.map(\.rawValue))
        #expect(names.allSatisfy { $0.output.1 == $0.output.2 })
    }

    @Test func everyCodeHasANumberOfItsOwn() {
        let numbers = RequestError.Code.all.map { (RequestError($0, "") as NSError).code }
        #expect(Set(numbers).count == numbers.count && !numbers.contains(1))
        #expect((RequestError(.init(rawValue: "mine"), "") as NSError).code == 1)
    }

    @Test(arguments: RequestError.Code.all)
    func aCodeMadeByItsNameIsTheSame(code: RequestError.Code) {
        let made = RequestError.Code(rawValue: code.description)
        #expect(made == code && made.number == code.number && made.facts == code.facts)
    }

    @Test func thePageOfFailuresHasTheTable() throws {
        let rows = try RequestError.Code.all.map { code in
            "| ``RequestError/Code-swift.struct/\(code)`` | \(code.number) | \(try Self.repetition(code)) |"
        }
        let table = "| code | number | sent again |\n|---|---|---|\n" + rows.joined(separator: "\n") + "\n"
        #expect(LibrarySources.page("Failures").contains(table), "\(table)")
    }

    @Test func theTopicsAreTheSections() throws {
        let sections = Self.source.matches(of: #/// MARK: (.+)|static let (\w+) = Code/#).map { match in
            match.output.1.map { "### \($0)\n" } ?? "- ``\(match.output.2 ?? "")``"
        }
        let topics = sections.prefix { $0 != "### All\n" }.joined(separator: "\n").replacing("\n###", with: "\n\n###")
        #expect(LibrarySources.page("Symbols/RequestError.Code").contains(topics), "\(topics)")
    }

    @Test func everyCodeIsBroughtAboutByATest() {
        let tables = ["Messages/RequestErrorTests.swift", "Policies/RetryPolicyTests.swift"]
        let texts = LibrarySources.files(below: "Tests/ConvoyTests").filter { !tables.contains($0) }
            .map { LibrarySources.text("Tests/ConvoyTests/\($0)") }
        let missing = RequestError.Code.all.filter { code in !texts.contains { $0.contains(".\(code)") } }
        #expect(missing == [])
    }
}
