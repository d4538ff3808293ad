import Foundation
import Testing

@testable import Convoy

@Suite struct ObservingTests {
    @Test func drainingWaitsForMonitors() async throws {
        let (log, gate) = (EventLog<String>(), DispatchSemaphore(value: 0))
        let server = StubServer { $0.answer(200) }
        // Handles the end of the operation late: when the gate is signalled, or after 100 ms.
        let late = ClosureMonitor { _, event in
            guard event.isFinished else { return }
            _ = gate.wait(timeout: .now() + .milliseconds(100))
            log.record("monitor")
        }
        let manager = server.manager(monitors: [late])
        _ = try await manager.send(.stub("a"))
        await manager.drain()
        log.record("drained")
        gate.signal()
        #expect(await log.wait(count: 2) == ["monitor", "drained"])
    }

    @Test func severalReadersGetTheSameEventsInOrder() async {
        let server = StubServer.held()
        let manager = server.manager()
        let operation = manager.operation(.stub("a"))
        let (one, other) = (operation.events.makeAsyncIterator(), operation.events.makeAsyncIterator())
        let readers = [one, other].map { iterator in
            Task {
                var (iterator, names) = (iterator, [String]())
                while let event = await iterator.next() { names.append(event.word) }
                return names
            }
        }
        manager.enqueue(operation)
        let exchange = await server.exchanges.wait()[0]
        operation.suspend()
        operation.resume()
        exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 3))
        exchange.send(Data(count: 3))
        exchange.finish()
        for reader in readers {
            #expect(
                await reader.value == [
                    "queued", "started 1", "suspended", "resumed", "response 200", "progress 3", "finished",
                ])
        }
        // A reader that starts after the end receives only the end.
        var late: [String] = []
        for await event in operation.events { late.append(event.word) }
        #expect(late == ["finished"])
    }

    @Test func aSlowReaderReceivesOnlyTheLatestProgress() async {
        let server = StubServer.held()
        let operation = RequestOperation(.stub("a"), transport: server.transport)
        let iterator = operation.events.makeAsyncIterator()
        operation.start()
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        for _ in 0..<1_000 { exchange.send(Data(count: 1)) }
        exchange.finish()
        _ = try? await operation.response()
        var (words, reader) = ([String](), iterator)
        while let event = await reader.next() { words.append(event.word) }
        #expect(words == ["started 1", "response 200", "progress 1000", "finished"])
    }

    @Test func aSlowProgressHandlerIsNotFlooded() async {
        let server = StubServer.held()
        let operation = RequestOperation(.stub("a"), transport: server.transport)
        let (entered, gate) = (EventLog<Int64>(), DispatchSemaphore(value: 0))
        operation.onProgress { progress in
            entered.record(progress.download.completedBytes)
            gate.wait()
        }
        operation.start()
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data(count: 1))
        await entered.wait()
        for _ in 0..<999 { exchange.send(Data(count: 1)) }
        gate.signal()
        #expect(await entered.wait(count: 2).last == 1_000)
        // If each event called the handler, 1,000 signals would let it end, and the check below would fail.
        for _ in 0..<1_000 { gate.signal() }
        exchange.finish()
        let done = EventLog<Void>()
        operation.onFinish { _ in done.record(()) }
        await done.wait()
        #expect(entered.count == 2)
    }

    @Test func readingEndsWithItsTask() async {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        let reading = Task {
            for await _ in operation.events {}
            return true
        }
        reading.cancel()
        #expect(await reading.value)
    }

    @Test func monitorsReceiveEventsInOrderAndMayCallBack() async {
        let log = EventLog<String>()
        let monitor = ClosureMonitor { operation, event in
            _ = (operation.description, operation.progress, operation.isFinished)
            log.record("\(operation.label) \(event.word)")
        }
        let manager = StubServer().manager(1, monitors: [monitor])
        manager.isSuspended = true
        manager.enqueue(.stub("a"))
        manager.enqueue(.stub("b")).cancel()
        manager.isSuspended = false
        await log.wait(count: 7)
        #expect(
            log.events.filter { $0.hasPrefix("a") } == [
                "a queued", "a started 1", "a response 200", "a progress 2", "a finished",
            ])
        #expect(log.events.filter { $0.hasPrefix("b") } == ["b queued", "b finished cancelled"])
        await manager.drain()
    }

    /// A head contains the URL of its request, and `dump` shows stored properties that a description omits.
    @Test func descriptionsAndReflectionsShowNoSecret() async throws {
        let request = Request<Data>.get("http://user:hunter2@stub/a").bearer("hunter2").header("Cookie", "hunter2")
        let response = try await StubServer().manager().send(request)
        let manager = StubServer { $0.answer(500) }.manager()
        let operation = manager.enqueue(request)
        let error = await operation.failure()
        var dumped = ""
        dump(error, to: &dumped)
        dump(request.core, to: &dumped)
        let texts = [
            "\(response)", "\(response.head)", String(reflecting: response.head),
            "\(RequestEvent.response(response.head))", "\(String(describing: error?.response))", dumped,
            "\(operation)", manager.why(operation), "\(String(describing: operation.result))",
            operation.request?.description ?? "", operation.error?.localizedDescription ?? "",
        ]
        for text in texts { #expect(!text.contains("hunter2"), "\(text)") }
        #expect("\(response.head)".contains("http://stub/a"))
        #expect("\(response)".contains("http://stub/a"))
    }
}

extension RequestEvent {
    var word: String {
        switch self {
        case .queued: "queued"
        case .started(let attempt): "started \(attempt)"
        case .response(let head): "response \(head.statusCode)"
        case .progress(let progress): "progress \(progress.download.completedBytes)"
        case .attemptEnded(let record): "attempt ended \(record.number)"
        case .suspended: "suspended"
        case .resumed: "resumed"
        case .finished(let error): error.map { "finished \($0.code)" } ?? "finished"
        }
    }
}
