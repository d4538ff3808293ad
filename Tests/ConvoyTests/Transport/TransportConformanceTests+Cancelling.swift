// Tests cancelling, suspending and resuming over every transport.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension TransportConformanceTests {
    @Test(arguments: ConformingTransport.all)
    func cancelBeforeStartSendsNothing(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) { $0.cancel() }
        #expect(try await sending.error().code == .cancelled)
        #expect(sending.operation.isFinished)
        // If the first request had been sent, the server would have received it before this one.
        server.enqueue(.status(200))
        _ = try await Sending(Request<Data>.get(server.url("/later")), over: subject.transport).response()
        #expect(try await server.takeRequest().target == "/later")
        #expect(server.requestCount == 1)
        #expect(sending.outcomes.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelBeforeTheHeadEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(Reply.status(200, body: "late").stalling(until: gate))
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport)
        try await gate.reached()
        try await expectCancelled(sending, server)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelInTheBodyEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(Reply.generated(byteCount: 1_000_000).stalling(afterBodyBytes: 300_000))
        var received: EventLog<Int64>?
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) {
            received = $0.received(bytes: 300_000)
        }
        await received?.wait()
        try await expectCancelled(sending, server)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelInTheRequestsBodyEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1_000)))
        let body = Data(count: 20_000_000)
        let sending = Sending(Request<Data>.post(server.url()).body(body), over: subject.transport)
        try await gate.reached()
        sending.operation.cancel()
        #expect(try await sending.error().code == .cancelled)
        gate.open()
        try await server.connectionsClosed()
        #expect(sending.outcomes.count == 1)
        #expect(try await server.takeRequest().isBodyComplete == false)
    }

    /// Cancels once, a second time, and after the end.
    private func expectCancelled(_ sending: Sending<Data>, _ server: TestServer) async throws {
        sending.operation.cancel()
        sending.operation.cancel()
        let error = try await sending.error()
        #expect(error.code == .cancelled)
        #expect(!error.isRetryable)
        #expect(error.request == "GET \(server.url())")
        try await server.connectionsClosed()
        sending.operation.cancel()
        #expect(sending.outcomes.count == 1)
        #expect(sending.operation.isFinished)
        #expect(sending.operation.result?.code == .cancelled)
        #expect(sending.operation.task == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelledTaskEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(Reply.status(200).stalling(until: gate))
        let operation = RequestOperation(Request<Data>.get(server.url()), transport: subject.transport)
        let waiting = Task { () -> RequestError? in
            do throws(RequestError) {
                operation.start()
                _ = try await operation.response()
                return nil
            } catch { return error }
        }
        try await gate.reached()
        waiting.cancel()
        #expect(await waiting.value?.code == .cancelled)
        try await server.connectionsClosed()
    }

    @Test(arguments: ConformingTransport.all)
    func suspendedTransferEndsWithTheWholeBody(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.respond { _ in Reply.generated(byteCount: 1_000_000).stalling(afterBodyBytes: 300_000, until: gate) }
        var received: EventLog<Int64>?
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) {
            received = $0.received(bytes: 300_000)
        }
        await received?.wait()
        sending.operation.suspend()
        sending.operation.suspend()
        #expect(sending.operation.isSuspended)
        // A transport that cannot pause a transfer has ended it.
        if !subject.transport.pausesInPlace { try await server.connectionsClosed() }
        gate.open()
        sending.operation.resume()
        sending.operation.resume()
        let response = try await sending.response()
        #expect(response.value == Reply.pattern(range: 0..<1_000_000))
        #expect(response.transfer.download.completedBytes == 1_000_000)
        #expect(server.requestCount == (subject.transport.pausesInPlace ? 1 : 2))
        #expect(sending.outcomes.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func suspendedTransferCanBeCancelled(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(Reply.status(200, body: "late").stalling(until: gate))
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport)
        try await gate.reached()
        sending.operation.suspend()
        try await expectCancelled(sending, server)
        sending.operation.resume()
        #expect(server.requestCount == 1)
    }

    /// A cancellation at any moment results in one outcome: the response or `.cancelled`.
    @Test(arguments: ConformingTransport.all)
    func cancelAtAnyEventHasOneOutcome(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .chunked((0..<20).map { _ in Data(count: 1_000) }) }
        for count in 0..<12 {
            let events = EventLog<Void>()
            let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) { operation in
                let stream = operation.events
                Task {
                    for await _ in stream {
                        if events.count == count { operation.cancel() }
                        events.record(())
                    }
                }
            }
            switch try await sending.result() {
            case .success(let response): #expect(response.value.count == 20_000)
            case .failure(let error): #expect(error.code == .cancelled)
            }
            #expect(sending.outcomes.count == 1)
        }
    }
}
