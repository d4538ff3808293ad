// The code of the page "How it works": a program's own transports, clocks, monitors and states.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct InsidePageTests {
    @Test func callbacksAndEvents() async throws {
        let stub = StubTransport()
        stub.route("/**", replies: .json("[]"))
        let manager = RequestManager(configuration: .init(transport: .custom(stub)))
        let url = "http://example.com/a"
        try await callBack(manager.enqueue(Request<[Int]>.get(url)))
        try await observe(manager, url)
        await manager.drain()
        #expect(stub.calls.count == 2)
    }

    private func callBack(_ operation: RequestOperation<[Int]>) async throws {
        operation.onFinish(on: .main) { _ in print("on the main actor") }
        operation.onFinish(on: .queue(.global())) { _ in print("on that queue") }
        operation.onFinish(on: .inPlace) { _ in print("at once; may not wait") }
        #expect(try await operation.response().value.isEmpty)
    }

    private func observe(_ manager: RequestManager, _ url: String) async throws {
        let operation = manager.operation(Request<[Int]>.get(url))
        let observation: StateObservation = operation.observeState(
            \.isFinished, options: StateObservingOptions.new
        ) { _, change in
            let now: StateChange = change
            print("finished:", now.newValue ?? false)
        }
        let events: Broadcast<RequestEvent> = operation.events
        manager.enqueue(operation)
        for await event in events { print(event) }
        observation.invalidate()
        #expect(try await operation.response().value.isEmpty)
    }

    struct Counter: EventMonitor {
        func operation(
            _ operation: AnyRequestOperation, did event: RequestEvent
        ) {
            guard case .finished(let error) = event else { return }
            print(operation.tags, error?.code.rawValue ?? "success")
        }
    }

    /// A transport that sends through another one and logs each task.
    final class Logging: Transport {
        private let next: any Transport
        init(_ next: any Transport) { self.next = next }
        var pausesInPlace: Bool { next.pausesInPlace }
        var isReentrant: Bool { next.isReentrant }

        func makeTask(
            for request: PreparedRequest, client: any TransportClient
        ) throws(RequestError) -> URLSessionTask {
            print(request.cURLCommand())
            return try next.makeTask(for: request, client: client)
        }
    }

    /// A clock that is a minute ahead.
    final class EarlyClock: RequestClock {
        private let system = SystemClock.shared
        var now: ContinuousClock.Instant { system.now }
        var date: Date { system.date.addingTimeInterval(60) }

        func wake(
            at instant: ContinuousClock.Instant,
            _ work: @escaping @Sendable () -> Void
        ) -> ClockTimer {
            system.wake(at: instant, work)
        }
    }

    @Test func partsOfYourOwn() async throws {
        let stub = StubTransport()
        stub.route("/**", replies: .json("[]"))
        var configuration = RequestManager.Configuration()
        configuration.transport = .custom(Logging(URLSessionTransport.shared))
        configuration.monitors = [Counter(), NotificationMonitor()]
        configuration.clock = EarlyClock()
        configuration.transport = .custom(Logging(stub))
        let manager = RequestManager(configuration: configuration)
        let operation = manager.enqueue(Request<[Int]>.get("http://example.com/a"))
        #expect(try await operation.response().value.isEmpty)
        await manager.drain()
    }
}
