import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// What follows an attempt, as a table.
@Suite struct FollowUpTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        var method = HTTPMethod.get
        var status: Int?
        var fields: HeaderFields = [:]
        var failure: RequestError?
        var history = FollowUp.History()
        var retries = RetryPolicy.standard
        var decision = InterceptorDecision.proceed
        var canBeRepeated = true
        var canStartOver = false
        var isAnswered = false
        var budget = RetryBudget.unlimited
        let expected: String

        var testDescription: String { name }
    }

    private static let now = ContinuousClock.now
    private static let lost = RequestError(.connectionLost, "lost")
    private static let noDescriptor = RequestError(.transportFailed, "none", underlying: POSIXError(.EMFILE))

    private static func history(_ change: (inout FollowUp.History) -> Void) -> FollowUp.History {
        var history = FollowUp.History()
        change(&history)
        return history
    }

    static let cases = [
        Case(name: "a success", status: 200, expected: "stands"),
        Case(name: "a redirect", status: 302, fields: ["Location": "/b"], expected: "redirect to /b"),
        Case(
            name: "another origin", status: 302, fields: ["Location": "http://c/"], expected: "redirect to / elsewhere"),
        Case(name: "no target", status: 302, expected: "stands: it has no Location"),
        Case(name: "an unknown expectation", status: 417, expected: "retry 0.0 seconds without Expect"),
        Case(name: "503", status: 503, expected: "retry 0.25 seconds, counted 1"),
        Case(
            name: "503 again", status: 503, history: history { $0.retryCount = 2 },
            expected: "retry 1.0 seconds, counted 3"),
        Case(name: "the last", status: 503, history: history { $0.retryCount = 3 }, expected: "stands"),
        Case(name: "503 of a POST", method: .post, status: 503, expected: "stands"),
        Case(name: "503 of the cache", status: 503, isAnswered: true, expected: "stands"),
        Case(name: "404", status: 404, expected: "stands"),
        Case(name: "a body that is used up", status: 503, canBeRepeated: false, expected: "stands"),
        Case(
            name: "Retry-After", status: 503, fields: ["Retry-After": "7"],
            expected: "retry 7.25 seconds, counted 1, asked"),
        Case(
            name: "a long wait", status: 503, fields: ["Retry-After": "99999"],
            expected: "stands: it is not retried, because Retry-After: 99999 is beyond the longest wait, 300.0 s"),
        Case(
            name: "the deadline", status: 503, history: history { $0.deadline = now + .milliseconds(200) },
            expected: "stands: another attempt, in 250 ms, would be after its deadline"),
        Case(
            name: "no budget", status: 503, budget: RetryBudget(ratio: 0, reserve: 0, reservePerSecond: 0),
            expected: "stands"),
        Case(name: "a lost connection", failure: lost, expected: "retry 0.25 seconds, counted 1"),
        Case(name: "no retries", failure: lost, retries: .never, expected: "stands"),
        Case(name: "another beginning", failure: lost, retries: .never, canStartOver: true, expected: "starts over"),
        Case(
            name: "a second beginning", failure: lost, history: history { $0.hasStartedOver = true }, retries: .never,
            canStartOver: true, expected: "stands"),
        Case(name: "no descriptor", failure: noDescriptor, expected: "waits for a descriptor"),
        Case(name: "none for long", failure: noDescriptor, history: history { $0.shortages = 10 }, expected: "stands"),
        Case(
            name: "no descriptor after a head", method: .post, status: 200, failure: noDescriptor, expected: "stands"),
        Case(name: "an interceptor stops", status: 503, decision: .stop, expected: "stands"),
        Case(
            name: "it asks for more", status: 200, decision: .retry(after: .seconds(2)),
            expected: "intercepted 2.0 seconds"),
        Case(
            name: "too often", status: 200, history: history { $0.interceptionCount = 10 },
            decision: .retry(after: .zero), expected: "stands"),
    ]

    @Test(arguments: cases) func isAsTheTableSays(_ row: Case) throws {
        var configuration = RequestManager.Configuration(transport: .custom(StubServer().transport))
        (configuration.retries, configuration.retryBudget, configuration.jitter) = (row.retries, row.budget, { 0.5 })
        let manager = RequestManager(configuration: configuration)
        let request = Request<Data>(method: row.method, url: "http://stub/a") { body, _ in body }
            .header("Expect", "100-continue")
        let operation = manager.operation(request)
        let prepared = try request.core.prepared(.standard)
        let moment = CompactInstant(Self.now)
        let launch = OperationRecord.Launch(
            number: 1, request: prepared, plan: TypedRequestPlan(request), moment: moment)
        let attempt = Attempt(launch, of: operation, request: prepared, started: moment)
        if row.isAnswered { attempt.receiving.withLock { $0.isAnswered = true } }
        let head = row.status.map { ResponseHead(statusCode: $0, headerFields: row.fields, url: prepared.url) }
        var error = row.failure
        if error == nil, let head, head.statusCode >= 300 {
            error = RequestError(.unacceptableStatus, "status", response: head)
        }
        let ending = AttemptEnding(
            attempt: attempt, head: head, error: error, metrics: nil, ended: Self.now, isAnswer: row.failure == nil,
            taskHasEnded: true, canStartOver: row.canStartOver, resumableBytes: 0)
        let situation = FollowUp.Situation(
            ending: ending, base: prepared, canBeRepeated: row.canBeRepeated, history: row.history, policies: nil,
            scheduler: manager.scheduler)
        #expect(words(situation.decide(after: row.decision), before: row.history) == row.expected)
    }

    private func words(_ followUp: FollowUp, before: FollowUp.History) -> String {
        switch followUp {
        case .stand(let error):
            let note = error.map { $0.message.split(separator: "; ").last ?? "" }
            return "stands" + (note.map { ": \($0)" } ?? "")
        case .again(.redirect(let url), _, _, let history):
            return "redirect to \(url.path)" + (history.hasLeftOrigin ? " elsewhere" : "")
        case .again(.retry(let delay), let request, let asked, let history):
            var words = "retry \(delay)"
            if history.retryCount != before.retryCount { words += ", counted \(history.retryCount)" }
            if asked != nil { words += ", asked" }
            return request?.headerFields["Expect"] == nil && request != nil ? words + " without Expect" : words
        case .again(.intercepted(let delay), _, _, let history):
            return history.interceptionCount == 1 ? "intercepted \(delay)" : "uncounted"
        case .again(.startOver, _, _, let history):
            return history.hasStartedOver && history.startsOver ? "starts over" : "starts over for ever"
        case .again(.awaitedDescriptor, _, _, let history):
            return history.shortages == 1 ? "waits for a descriptor" : "waits uncounted"
        case .again: return "unexpected"
        }
    }
}
