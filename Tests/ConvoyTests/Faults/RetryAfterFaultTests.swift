// Tests servers that ask for a delay in various ways.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

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
