// Tests endless responses, and the deadline that ends them.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct DeadlineFaultTests {
        private static let head = Data("HTTP/1.1 200 OK\r\n".utf8)
        private static let drop = Reply.Step.pace(bytesPerSecond: 100, pieceBytes: 1)

        /// Endless responses that stall, or arrive one byte at a time.
        private static let endless: [ServerAct] = [
            .endless("silence", Reply.status(200).stalling()) { _ in },
            .endless(
                "dripping status line",
                Reply(steps: [drop, .writeRepeatedly(Data("HTTP/1.1 200 ".utf8), count: 1), .wait(Gate())])
            ) { _ in },
            .endless(
                "dripping header",
                Reply(steps: [drop, .write(head), .writeRepeatedly(Data("X-A: b\r\n".utf8), count: 1 << 30)])
            ) { _ in },
            .endless("stalled header", Reply(steps: [.write(head + Data("X-".utf8)), .wait(Gate())])) { _ in },
        ]
        private static let endlessBodies: [ServerAct] = [
            .endless("dripping body", Reply.generated(byteCount: 1 << 20).dripping(bytesPerSecond: 100, pieceBytes: 1))
            {
                $0.respond(ResponseHead(statusCode: 200, expectedBytes: 1 << 20))
                $0.send(Data("x".utf8))
            },
            .endless(
                "dripping body without a length",
                Reply(steps: [.write(head + Data("\r\n".utf8)), drop, .writeRepeatedly(Data("x".utf8), count: 1 << 30)])
            ) {
                $0.respond(ResponseHead(statusCode: 200))
                $0.send(Data("x".utf8))
            },
            .endless("stalled body", Reply.generated(byteCount: 1_000).stalling(afterBodyBytes: 10)) {
                $0.respond(ResponseHead(statusCode: 200, expectedBytes: 1_000))
                $0.send(Data(count: 10))
            },
        ]

        /// A GET with a deadline of one minute.
        ///
        /// The idle timeout is longer, so it cannot end the request first.
        private func request(_ server: ScriptedServer) -> Request<Data> {
            Request<Data>.get(server.url()).idleTimeout(.seconds(600)).deadline(.seconds(60))
        }

        private func expectEnd(
            of operation: RequestOperation<Data>, _ server: ScriptedServer, _ clock: VirtualClock
        ) async throws {
            clock.advance(by: .seconds(59))
            #expect(operation.result == nil)
            clock.advance(by: .seconds(1))
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .deadlineExceeded, "\(error?.message ?? "")")
            #expect(error?.isRetryable == false)
            #expect(error?.message.contains("executing") == true)
            #expect(error?.attempts.map(\.failure) == [.deadlineExceeded])
            // No retry or other timer is left.
            #expect(!clock.advanceToNext())
            #expect(server.seen.count == 1)
            try await server.wire?.connectionsClosed()
        }

        @Test(arguments: FaultGround.all, endless)
        func headThatNeverEndsIsEndedByTheDeadline(ground: FaultGround, fault: ServerAct) async throws {
            let clock = VirtualClock()
            let server = try ScriptedServer(ground, clock: clock, [fault, .answer(200)])
            let operation = server.manager.enqueue(request(server))
            await server.requests.wait()
            try await expectEnd(of: operation, server, clock)
        }

        @Test(arguments: FaultGround.all, endlessBodies)
        func bodyThatNeverEndsIsEndedByTheDeadline(ground: FaultGround, fault: ServerAct) async throws {
            let clock = VirtualClock()
            let server = try ScriptedServer(ground, clock: clock, [fault, .answer(200)])
            let operation = server.manager.operation(request(server))
            let received = operation.received(bytes: 1)
            server.manager.enqueue(operation)
            await received.wait()
            try await expectEnd(of: operation, server, clock)
        }

        /// An endless slow download leaves no file.
        @Test(arguments: FaultGround.all, endlessBodies)
        func fileThatNeverEndsIsNotThere(ground: FaultGround, fault: ServerAct) async throws {
            let (directory, clock) = (try TemporaryDirectory(), VirtualClock())
            let server = try ScriptedServer(ground, clock: clock, [fault, .answer(200)])
            let operation = server.manager.operation(request(server).saved(to: directory.file("target")))
            let received = operation.received(bytes: 1)
            server.manager.enqueue(operation)
            await received.wait()
            clock.advance(by: .seconds(60))
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .deadlineExceeded)
            #expect(try directory.entries == [])
        }

        /// One deadline applies to all attempts; a retry does not restart it.
        @Test(arguments: FaultGround.all)
        func deadlineIsOneForAllAttempts(ground: FaultGround) async throws {
            let clock = VirtualClock()
            let acts: [ServerAct] = [
                .answer(503), .redirect(307, to: "/b"), .endless("", Reply.status(200).stalling()) { _ in },
            ]
            let server = try ScriptedServer(ground, clock: clock, acts) {
                $0.retries = RetryPolicy(baseDelay: .seconds(40), maxDelay: .seconds(40))
            }
            let operation = server.manager.enqueue(request(server))
            // The two timers are the deadline and the first retry.
            await clock.armed.wait(count: 2)
            clock.advance(by: .seconds(20))
            await server.requests.wait(count: 3)
            clock.advance(by: .seconds(40))
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .deadlineExceeded)
            #expect(error?.attempts.map(\.statusCode) == [503, 307, nil])
            #expect(error?.message.contains("20.0 s between attempts") == true, "\(error?.message ?? "")")
            #expect(server.seen.count == 3)
        }
    }
}
