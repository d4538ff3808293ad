// Tests retryable failures, servers that ask for a delay, and endless responses with a deadline.
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

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct RetryAfterFaultTests {
        /// The initial date of the tests' clock.
        private static let now = "Tue, 14 Nov 2023 22:13:20 GMT"

        /// The wait is the server's delay plus the policy's delay of 250 ms.
        ///
        /// A date is relative to the response's own `Date`. Without a
        /// valid `Date`, it is relative to the client's calendar. Invalid values are ignored.
        @Test(
            arguments: FaultGround.all,
            [
                ([("Retry-After", "120")], 120), ([("Retry-After", "0")], 0), ([("Retry-After", "300")], 300),
                ([("retry-after", " 7 ")], 7),
                ([("Retry-After", "Tue, 14 Nov 2023 22:14:20 GMT")], 60),
                ([("Retry-After", "Tuesday, 14-Nov-23 22:14:20 GMT")], 60),
                ([("Retry-After", "Tue Nov 14 22:14:20 2023")], 60),
                ([("Date", now), ("Retry-After", "Tue, 14 Nov 2023 22:14:20 GMT")], 60),
                ([("Date", "Tue, 14 Nov 2023 23:13:20 GMT"), ("Retry-After", "Tue, 14 Nov 2023 23:14:20 GMT")], 60),
                ([("Date", "Tue, 14 Nov 2023 21:13:20 GMT"), ("Retry-After", "Tue, 14 Nov 2023 21:14:20 GMT")], 60),
                ([("Date", "Sat, 04 Jul 1998 00:00:00 GMT"), ("Retry-After", "Sat, 04 Jul 1998 00:01:00 GMT")], 60),
                ([("Date", "garbage"), ("Retry-After", "Tue, 14 Nov 2023 22:14:20 GMT")], 60),
                ([], 0), ([("Retry-After", "-1")], 0), ([("Retry-After", "soon")], 0),
                ([("Retry-After", "")], 0), ([("Retry-After", "1.5")], 0), ([("Retry-After", "0x10")], 0),
                ([("Retry-After", "Tue, 14 Nov 2023 20:00:00 GMT")], 0),
                ([("Retry-After", "Tue, 31 Feb 2024 00:00:00 GMT")], 0),
                ([("Retry-After", "5"), ("Retry-After", "6")], 0), ([("Retry-After", "5"), ("Retry-After", "5")], 5),
            ] as [([(String, String)], Int)])
        func theServersTimeIsWaitedAndNonsenseIsIgnored(
            ground: FaultGround, told: (fields: [(String, String)], seconds: Int)
        ) async throws {
            for statusCode in [503, 429] {
                let server = try ScriptedServer(ground, [.answer(statusCode, told.fields), .answer(200)])
                let response = try await server.response(to: Request<Data>.get(server.url()))
                let wait = Duration.seconds(told.seconds) + .milliseconds(250)
                #expect(response.attempts.map(\.next) == [.retry(after: wait), .outcome])
                #expect(server.seen.map(\.at) == [.zero, wait])
            }
        }

        @Test(
            arguments: FaultGround.all,
            ["301", "86400", "99999999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
        func aLongerWaitThanThePolicysIsNotBegun(ground: FaultGround, value: String) async throws {
            let server = try ScriptedServer(ground, [.answer(503, [("Retry-After", value)]), .answer(200)])
            let error = try await server.error(of: Request<Data>.get(server.url()))
            #expect(error.response?.statusCode == 503)
            #expect(error.message.contains("Retry-After: \(value)"), "\(error)")
            #expect(server.seen.count == 1 && server.clock.elapsed == .zero)
        }

        @Test(arguments: FaultGround.all, [429, 503])
        func postIsNotSentAgainThoughTheServerNamesATime(ground: FaultGround, statusCode: Int) async throws {
            let server = try ScriptedServer(ground, [.answer(statusCode, [("Retry-After", "5")]), .answer(200)])
            let error = try await server.error(of: Request<Data>.post(server.url()).body(Data("x".utf8)))
            #expect(error.response?.statusCode == statusCode)
            #expect(error.response?.headerFields["Retry-After"] == "5")
            #expect(error.isRetryable)
            #expect(server.seen.count == 1)
            #expect(server.clock.elapsed == .zero)
        }

        /// If the retry would start after the deadline, the response is the outcome at once.
        @Test(arguments: FaultGround.all, ["30", "Tue, 14 Nov 2023 22:13:50 GMT"])
        func aRetryAfterTheDeadlineIsNotWaitedFor(ground: FaultGround, value: String) async throws {
            let fields = [("Retry-After", value), ("Date", Self.now)]
            let clock = VirtualClock()
            let server = try ScriptedServer(ground, clock: clock, [.answer(503, fields), .answer(200)])
            let error = try await server.error(of: Request<Data>.get(server.url()).deadline(.seconds(30)))
            #expect(error.code == .unacceptableStatus, "\(error)")
            #expect(error.response?.statusCode == 503)
            #expect(server.seen.count == 1)
            #expect(clock.elapsed == .zero)
        }

        /// With the policy `wholeHost`, all requests to the host wait.
        ///
        /// Other hosts are not affected.
        @Test(arguments: FaultGround.all)
        func allRequestsToTheHostWait(ground: FaultGround) async throws {
            let clock = VirtualClock()
            let server = try ScriptedServer(ground, clock: clock, configure: { $0.retries = .wholeHost }) { _, index in
                index == 0 ? .answer(503, [("Retry-After", "30")]) : .answer(200)
            }
            let first = server.manager.enqueue(Request<Data>.get(server.url("/first")))
            // The two timers are the host's back-off and the retry after it.
            await clock.armed.wait(count: 2)
            let second = server.manager.enqueue(Request<Data>.get(server.url("/second")))
            let elsewhere = server.url("/elsewhere").replacing("127.0.0.1", with: "localhost").replacing(
                "stub", with: "b")
            _ = try await server.manager.send(Request<Data>.get(elsewhere))
            #expect(server.manager.why(second).contains("on hold for another 30.0 s"))
            clock.advance(by: .seconds(29))
            clock.advance(by: .seconds(1))
            _ = try await second.response()
            clock.advance(by: .seconds(1))
            _ = try await first.response()
            #expect(server.seen.map(\.target) == ["/first", "/elsewhere", "/second", "/first"])
            #expect(server.seen[2].at == .seconds(30))
        }

        /// During the wait the calendar clock is set forward and back by hours.
        ///
        /// The retry is neither earlier nor later.
        @Test(arguments: FaultGround.all, ["60", "Tue, 14 Nov 2023 22:14:20 GMT"])
        func calendarThatIsSetMovesNothing(ground: FaultGround, value: String) async throws {
            let clock = VirtualClock()
            let fields = [("Retry-After", value), ("Date", Self.now)]
            let server = try ScriptedServer(ground, clock: clock, [.answer(503, fields), .answer(200)])
            let operation = server.manager.enqueue(Request<Data>.get(server.url()).deadline(.seconds(120)))
            // The two timers are the deadline and the retry.
            await clock.armed.wait(count: 2)
            for (hours, seconds) in [(1.0, 20), (-2, 20), (1, 20), (24, 1)] {
                clock.setCalendar(forward: hours * 3_600)
                clock.advance(by: .seconds(seconds))
            }
            let response = try await operation.response()
            #expect(response.attempts.first?.next == .retry(after: .seconds(60) + .milliseconds(250)))
            // The retry is not earlier. It may be recorded after the clock has moved on.
            let at = try #require(server.seen.last?.at)
            #expect(at >= .seconds(60) + .milliseconds(250) && at <= .seconds(61))
        }

        /// A change of the calendar clock does not move a deadline.
        @Test(arguments: FaultGround.all)
        func calendarThatIsSetMovesNoDeadline(ground: FaultGround) async throws {
            let clock = VirtualClock()
            let silent = ServerAct.endless("", Reply.status(200).stalling()) { _ in }
            let server = try ScriptedServer(ground, clock: clock, [silent])
            let operation = server.manager.enqueue(Request<Data>.get(server.url()).deadline(.seconds(60)))
            await server.requests.wait()
            clock.setCalendar(forward: 3_600)
            clock.advance(by: .seconds(59))
            clock.setCalendar(forward: -7_200)
            #expect(operation.result == nil)
            clock.advance(by: .seconds(1))
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .deadlineExceeded)
        }
    }
}

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
