import Convoy
import Foundation
import Testing

@Suite struct TypedDependencyTests {
    private let server = StubServer { exchange in
        let path = exchange.request.url.path
        exchange.answer(path.hasPrefix("/bad") ? 500 : 200, body: Data(path.dropFirst().utf8))
    }

    private func text(_ manager: RequestManager, _ path: String) -> RequestOperation<String> {
        manager.operation(Request<String>.get("http://stub/\(path)"))
    }

    @Test func aLinkFollowsOperationsOfAnyTypes() async throws {
        let manager = server.manager()
        let (a, number) = (text(manager, "a"), manager.operation(Request<Int>.get("http://stub/7")))
        let group = manager.operation(named: "group") { _ in [1.5] }
        let nothing = manager.operation(Request<Void>.get("http://stub/b"))
        let two = manager.operation(after: a, number) { Request<String>.get("http://stub/\($0.value)-\($1.value + 1)") }
        let four = manager.operation(after: two, number, group, nothing) { two, number, group, _ in
            let sum = Double(number.value) + group[0]
            return Request<String>.get("http://stub/\(two.value)-\(sum)")
        }
        #expect(two.description.hasPrefix("the link after GET http://stub/a and 1 more"))
        manager.enqueue(four, two, a, number, group, nothing)
        #expect(try await four.response().value == "a-8-8.5")
    }

    @Test(arguments: [true, false]) func theStricterOfTwoPoliciesCounts(isStricterFirst: Bool) async {
        let manager = server.manager()
        let bad = text(manager, "bad")
        let entered = EventLog<Void>()
        let never: @Sendable () -> Request<String> = {
            entered.record(())
            return Request<String>.get("http://stub/never")
        }
        let link =
            isStricterFirst
            ? manager.operation(after: bad, bad.optional) { _, _ in never() }
            : manager.operation(after: bad.optional, bad) { _, _ in never() }
        let other = text(manager, "other")
        other.addDependency(bad, onFailure: isStricterFirst ? .fail : .ignore)
        other.addDependency(bad, onFailure: isStricterFirst ? .ignore : .fail)
        #expect(other.dependencies.count == 1)
        manager.enqueue(bad, link, other)
        await manager.drain()
        #expect(link.error?.code == .dependencyFailed && other.error?.code == .dependencyFailed)
        #expect(entered.count == 0 && server.paths == ["/bad"])
    }

    @Test func optionalAndResultDependenciesDoNotFailALink() async throws {
        let manager = server.manager()
        let (a, bad, gone) = (text(manager, "a"), text(manager, "bad"), text(manager, "gone"))
        gone.cancel()
        let link = manager.operation(after: a.optional, bad.optional, gone.asResult, a.asResult) {
            a, bad, gone, again in
            let parts = [a?.value ?? "nil", bad?.value ?? "nil", gone.code?.rawValue ?? "nil", try again.get().value]
            return Request<String>.get("http://stub/" + parts.joined(separator: "-"))
        }
        let single = manager.operation(after: bad.optional) { Request<String>.get("http://stub/\($0 == nil)") }
        let many = manager.operation(after: [a.optional, bad.optional, gone.optional]) { values in
            Request<String>.get("http://stub/" + values.map { $0?.value ?? "nil" }.joined(separator: "+"))
        }
        manager.enqueue(link, single, many, a, bad, gone)
        #expect(try await link.response().value == "a-nil-cancelled-a")
        #expect(try await single.response().value == "true")
        #expect(try await many.response().value == "a+nil+nil")
    }

    @Test func aRequiredDependencyFailsALinkAtOnce() async throws {
        let manager = StubServer { if $0.request.url.path == "/bad" { $0.answer(500) } }.manager()
        let (open, bad) = (text(manager, "open"), text(manager, "bad"))
        let link = manager.operation(after: open.optional, bad) { _, _ in Request<String>.get("http://stub/never") }
        manager.enqueue(open, bad, link)
        let error = await link.failure()
        #expect(error?.code == .dependencyFailed && !open.isFinished)
        open.cancel()
        await manager.drain()
    }

    @Test func aGroupsFailureReachesItsDependents() async throws {
        let manager = server.manager()
        let group = manager.operation(named: "group") { _ -> Int in throw CancellationError() }
        let link = manager.operation(after: group.asResult) {
            Request<String>.get("http://stub/\($0.code?.rawValue ?? "")")
        }
        let failing = manager.operation(after: group) { Request<String>.get("http://stub/\($0)") }
        manager.enqueue(link, failing, group)
        #expect(try await link.response().value == "cancelled")
        await manager.drain()
        #expect(failing.error?.message == "nothing was sent: group, which it depends on, was cancelled")
    }

    @Test func aRemovedDependencyHasNoValue() async {
        let manager = server.manager()
        let (a, b) = (text(manager, "a"), text(manager, "b"))
        let link = manager.operation(after: a, b) { a, b in Request<String>.get("http://stub/\(a.value)\(b.value)") }
        let patient = manager.operation(after: a.optional, b) { a, b in
            Request<String>.get("http://stub/\(a?.value ?? "nil")\(b.value)")
        }
        link.removeDependency(a)
        patient.removeDependency(a)
        manager.enqueue(b, link, patient)
        await manager.drain()
        #expect(link.error?.code == .invalidRequest && link.error?.message.contains("has none yet") == true)
        #expect(patient.error == nil && server.paths.contains("/nilb"))
    }
}
