// Tests retryable failures with idempotent and other requests.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct RepeatedFaultTests {
        private static let body = Reply.pattern(range: 0..<100_000)
        private static let statuses = [408, 425, 429, 500, 502, 503, 504].map { ServerAct.answer($0, body: "sorry") }
        private static let faults = ServerAct.losses + statuses

        /// Idempotent requests are sent again unchanged after the waits of the policy.
        ///
        /// The body and its byte count contain nothing of the failed attempts.
        @Test(arguments: FaultGround.all, faults)
        func idempotentRequestIsSentAgainUntilItWorks(ground: FaultGround, fault: ServerAct) async throws {
            for method in [HTTPMethod.get, .put, .delete] {
                let server = try ScriptedServer(ground, [fault, fault, .answer(200, body: "whole")])
                var request = Request<Data>(method: method, url: server.url("/a?b")).header("X-A", "1")
                if method == .put { request = request.body(Self.body) }
                let response = try await server.response(to: request)
                #expect(response.value == Data("whole".utf8))
                #expect(response.transfer.download.completedBytes == 5)
                #expect(response.attempts.map(\.statusCode) == [fault.statusCode, fault.statusCode, 200])
                #expect(response.attempts.map(\.failure) == [fault.failure, fault.failure, nil])
                #expect(
                    response.attempts.map(\.next) == [
                        .retry(after: .milliseconds(250)), .retry(after: .milliseconds(500)), .outcome,
                    ])
                #expect(server.seen.map(\.at) == [.zero, .milliseconds(250), .milliseconds(750)])
                for seen in server.seen {
                    #expect(seen.method == method.rawValue && seen.target == "/a?b" && seen.fields["X-A"] == "1")
                    #expect(seen.body == (method == .put ? Self.body : Data()))
                }
            }
        }

        @Test(arguments: FaultGround.all, faults)
        func faultThatLastsIsTheOutcomeOfTheLastTry(ground: FaultGround, fault: ServerAct) async throws {
            let server = try ScriptedServer(ground, [fault])
            let request = Request<Data>.get(server.url()).retries(RetryPolicy(maxRetries: 2))
            let error = try await server.error(of: request)
            #expect(error.code == fault.failure ?? .unacceptableStatus, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response?.statusCode == fault.statusCode)
            #expect(error.body == (fault.failure == nil ? Data("sorry".utf8) : nil))
            #expect(error.attempts.map(\.failure) == [fault.failure, fault.failure, fault.failure])
            #expect(error.attempts.map(\.statusCode) == [fault.statusCode, fault.statusCode, fault.statusCode])
            #expect(error.description.isOneLine)
            #expect(server.seen.count == 3)
        }

        /// The server may have processed the request, so it is not sent again (RFC 9110, section 9.2.2).
        ///
        /// After a 408 the server has not.
        @Test(arguments: FaultGround.all, faults.filter { $0.statusCode != 408 })
        func postIsSentOnce(ground: FaultGround, fault: ServerAct) async throws {
            for method in [HTTPMethod.post, .patch] {
                let server = try ScriptedServer(ground, [fault, .answer(200)])
                let error = try await server.error(of: Request<Data>(method: method, url: server.url()).body(Self.body))
                #expect(error.code == fault.failure ?? .unacceptableStatus, "\(error)")
                // The error is retryable, so a caller may decide to send the request again.
                #expect(error.isRetryable)
                #expect(error.attempts.count == 1)
                #expect(server.seen.map(\.body) == [Self.body])
                #expect(server.clock.elapsed == .zero)
            }
        }

        /// All attempts have the same key.
        @Test(arguments: FaultGround.all, faults)
        func postWithAKeyIsSentAgainWithThatKey(ground: FaultGround, fault: ServerAct) async throws {
            let server = try ScriptedServer(ground, [fault, fault, .answer(201, body: "made")])
            let request = Request<Data>.post(server.url()).body(Self.body).idempotencyKey()
            #expect(try await server.response(to: request).value == Data("made".utf8))
            #expect(server.seen.map(\.body) == [Self.body, Self.body, Self.body])
            let keys = Set(server.seen.map { $0.fields["Idempotency-Key"] ?? "" })
            #expect(keys.count == 1 && keys.first?.isEmpty == false)
        }

        @Test(arguments: FaultGround.all, faults)
        func postIsSentAgainWhereThatIsAskedFor(ground: FaultGround, fault: ServerAct) async throws {
            let server = try ScriptedServer(ground, [fault, .answer(201)])
            var policy = RetryPolicy.standard
            policy.retriesNonIdempotent = true
            _ = try await server.response(to: Request<Data>.post(server.url()).body(Self.body).retries(policy))
            #expect(server.seen.map(\.body) == [Self.body, Self.body])
        }

        /// A head that is truncated in its first line or between two lines is a lost connection.
        ///
        /// Within a later line it counts as malformed and is not retried. URLSession on Linux crashes the process,
        /// see KnownURLSessionFaultsTests.
        @Test(
            arguments: FaultGround.all.filter { !$0.isURLSession },
            ["H", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"])
        func headThatIsCutIsAskedForAgain(ground: FaultGround, head: String) async throws {
            let cut = ServerAct(
                testDescription: "", reply: .raw(head),
                stub: { $0.finish(RequestError(.connectionLost, "as scripted")) }, failure: .connectionLost)
            let server = try ScriptedServer(ground, [cut, cut, .answer(200, body: "whole")])
            let response = try await server.response(to: Request<String>.get(server.url()))
            #expect(response.value == "whole")
            #expect(response.attempts.map(\.failure) == [.connectionLost, .connectionLost, nil])
            #expect(response.attempts.map(\.statusCode) == [nil, nil, 200])
            #expect(server.seen.count == 3)
        }

        @Test(arguments: FaultGround.all, [0, 1, 2, 3, 4, 9])
        func serverThatFlapsIsAskedOnceMoreThanItFails(ground: FaultGround, failures: Int) async throws {
            let server = try ScriptedServer(ground) { _, index in .answer(index < failures ? 503 : 200) }
            let result = try await server.result(of: Request<Data>.get(server.url()))
            #expect(server.seen.count == min(failures, 3) + 1)
            #expect(result.code == (failures > 3 ? .unacceptableStatus : nil))
            #expect((try? result.get().attempts.count) ?? 4 == server.seen.count)
        }

        @Test(arguments: FaultGround.all)
        func waitForARetryIsCancelledAtOnce(ground: FaultGround) async throws {
            let clock = VirtualClock()
            let server = try ScriptedServer(ground, clock: clock, [.answer(503), .answer(200)])
            let ended = EventLog<RequestError.Code?>()
            let operation = server.manager.enqueue(Request<Data>.get(server.url())) { ended.record($0.code) }
            await clock.armed.wait()
            operation.cancel()
            #expect(await ended.wait() == [.cancelled])
            await server.manager.drain()
            // No timer is left that would send the request.
            #expect(!clock.advanceToNext())
            #expect(operation.error?.attempts.map(\.statusCode) == [503])
            #expect(server.seen.count == 1)
        }

        /// Many requests are cancelled during their retries.
        ///
        /// Each request has one outcome, and the server receives no later request.
        @Test(arguments: FaultGround.all)
        func crowdThatFlapsIsCancelledWithOneOutcomeEach(ground: FaultGround) async throws {
            let server = try ScriptedServer(ground) { configuration in
                configuration.retries = RetryPolicy(maxRetries: .max)
            } script: { _, _ in
                .answer(503)
            }
            let outcomes = EventLog<RequestError.Code?>()
            for number in 0..<30 {
                server.manager.enqueue(Request<Data>.get(server.url("/\(number)"))) { outcomes.record($0.code) }
            }
            await server.requests.wait(count: 100)
            server.manager.cancelAll()
            await server.manager.drain()
            #expect(await outcomes.wait(count: 30).allSatisfy { $0 == .cancelled })
            #expect(outcomes.count == 30)
            #expect(!server.clock.advanceToNext())
        }
    }
}
