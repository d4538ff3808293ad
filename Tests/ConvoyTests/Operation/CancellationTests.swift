import Foundation
import Testing

@testable import Convoy

/// Runs a scenario once for each event and each interference, such as a cancellation during the event.
@Suite struct CancellationTests {
    enum Interference: String, CaseIterable, Sendable {
        case none
        case cancel
        case cancelAll
        case suspend
        case dropManager
        case fail
        case shutDown
    }

    /// The record of a run.
    ///
    /// The thread that causes an event records the event and interferes.
    private final class Run: Sendable {
        private struct State {
            var events: [String] = []
            var interfere: (@Sendable (Int) -> Void)?
        }

        private let state = Locked(State())
        let outcomes = EventLog<(name: String, code: RequestError.Code?)>()

        var events: [String] { state.withLock { $0.events } }

        func onEvent(_ interfere: (@Sendable (Int) -> Void)?) { state.withLock { $0.interfere = interfere } }

        func event(_ name: String) {
            let (number, interfere) = state.withLock { state in
                state.events.append(name)
                return (state.events.count, state.interfere)
            }
            interfere?(number)
        }

        func listen<Output: Sendable>(to operation: RequestOperation<Output>, _ name: String) {
            operation.onFinish { [self] in
                outcomes.record((name, $0.code))
                event("callback \(name)")
            }
        }
    }

    /// Runs a login and two dependents: a chain's link, and a download with a plain dependency.
    ///
    /// A stub sends its responses in pieces, on this thread and on the queue's threads. Returns the number of events.
    @discardableResult
    private func play(_ interference: Interference, at moment: Int, check: LeakCheck) async -> Int {
        let run = Run()
        let exchanges = EventLog<StubExchange>()
        let stub = StubTransport { exchange in
            exchanges.record(exchange)
            run.event("sent \(exchange.request.url.path)")
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 6))
            run.event("head \(exchange.request.url.path)")
            for piece in ["abc", "def"] {
                exchange.send(Data(piece.utf8))
                run.event("bytes \(exchange.request.url.path)")
            }
            exchange.finish()
            run.event("end \(exchange.request.url.path)")
        }
        var manager: RequestManager? = RequestManager(configuration: .init(transport: .custom(stub)))
        guard let held = manager else { return 0 }
        let login = check.watch(held.operation(Request<Data>.stub("login")))
        let me = check.watch(
            held.operation(after: login) { login in
                run.event("build me")
                return Request<String>.get("http://stub/me").decoding { body, _ in
                    run.event("decode me")
                    return String(decoding: body, as: UTF8.self)
                }
            })
        let file = check.watch(held.operation(Request<Data>.stub("file")))
        file.addDependency(login)
        let operations: [AnyRequestOperation] = [login, me, file]
        run.listen(to: login, "login")
        run.listen(to: me, "me")
        run.listen(to: file, "file")

        let box = Locked<RequestManager?>(manager)
        manager = nil
        run.onEvent { [unowned run] number in
            guard number == moment else { return }
            switch interference {
            case .none: break
            case .cancel: for operation in operations { operation.cancel() }
            case .cancelAll: box.withLock { $0 }?.cancelAll()
            case .suspend:
                for operation in operations { operation.suspend() }
                box.withLock { $0 }?.isSuspended = true
                for operation in operations { operation.resume() }
                box.withLock { $0 }?.isSuspended = false
            case .dropManager:
                let dropped = box.withLock { manager in
                    defer { manager = nil }
                    return manager
                }
                withExtendedLifetime(dropped) {}
            case .fail: for exchange in exchanges.events { exchange.finish(RequestError(.connectionLost, "lost")) }
            case .shutDown: box.withLock { $0 }?.shutDown()
            }
            _ = run.events.count
        }
        box.withLock { $0 }?.enqueue(contentsOf: operations)
        await run.outcomes.wait(count: 3)
        run.onEvent(nil)
        // No callback follows the outcome. Callbacks that were dispatched earlier run before this one.
        for operation in operations {
            let last = EventLog<Void>()
            operation.whenSettled { _ in last.record(()) }
            await last.wait()
        }
        let label = "\(interference.rawValue) at event \(moment) of \(run.events)"
        #expect(run.outcomes.count == 3, "\(label)")
        #expect(Set(run.outcomes.events.map(\.name)).count == 3, "\(label)")
        for (name, code) in run.outcomes.events {
            let operation = operations[name == "login" ? 0 : name == "me" ? 1 : 2]
            #expect(operation.error?.code == code, "\(name), \(label)")
            if interference == .none || interference == .suspend || interference == .dropManager {
                #expect(code == nil, "\(name), \(label)")
            }
        }
        // A dependent never runs before its dependency has ended, and a chain's link never runs after a failure.
        let outcomes = Dictionary(run.outcomes.events.map { ($0.name, $0.code) }) { first, _ in first }
        if outcomes["login"] != .some(nil) { #expect(outcomes["me"] != .some(nil), "\(label)") }
        await box.withLock { $0 }?.drain()
        return run.events.count
    }

    @Test(arguments: Interference.allCases)
    func anInterferenceAtAnyEventLeavesOneOutcomeEach(interference: Interference) async {
        let check = LeakCheck()
        let count = await play(.none, at: 0, check: check)
        #expect(count >= 17)
        for moment in 1...count { await play(interference, at: moment, check: check) }
        await check.expectAllGone()
    }
}
