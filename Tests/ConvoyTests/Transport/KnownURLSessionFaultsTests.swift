// Tests responses that crash a process with URLSession on Linux, which is why Convoy has its own transport.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if os(Linux)
    /// Receives responses that crash URLSession, each in a child process.
    ///
    /// These crashes are known issues until a toolchain fixes them.
    @Suite struct KnownURLSessionFaultsTests {
        @Test func connectionClosedInTheMiddleOfTheHeader() async {
            await withKnownIssue("SCF: fatal error, transfer completed, but there's no response", isIntermittent: true)
            {
                await #expect(processExitsWith: .success) {
                    let result = try await outcome(of: .raw("HTTP/1.1 200 OK\r\nContent-Le"))
                    #expect(result.code == .connectionLost || result.code == .badResponse)
                }
            }
        }

        @Test func trailersAfterAChunkedBody() async {
            await withKnownIssue("SCF: a trailer begins a new header section; fatal error", isIntermittent: true) {
                await #expect(processExitsWith: .success) {
                    let result = try await outcome(of: .chunked([Data("hello".utf8)], trailers: [("X-Digest", "1")]))
                    #expect(try result.get().value == Data("hello".utf8))
                }
            }
        }

        /// libcurl 7.88 does not leave a transfer that always has waiting bytes, and corelibs has one queue for all
        /// transfers.
        ///
        /// Such a body cannot be cancelled, and it blocks all requests of the process until the server pauses.
        @Test func bodyThatComesFasterThanItIsReadStopsEverything() async {
            await withKnownIssue(
                "libcurl: a transfer that is never waited for starves all others", isIntermittent: true
            ) {
                await #expect(processExitsWith: .success) {
                    endProcessIfStuck(after: 10)
                    let server = try TestServer()
                    defer { server.shutDown() }
                    let chunk = Data("4\r\naaaa\r\n".utf8)
                    let head = Data("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8)
                    server.route("/endless") { _ in
                        Reply(steps: [.write(head), .writeRepeatedly(chunk, count: 1 << 40)])
                    }
                    server.route("/other") { _ in .status(200) }
                    let transport = URLSessionTransport.shared
                    let endless = Request<Data>.get(server.url("/endless")).maxBodyBytes(100_000)
                    #expect(try await Sending(endless, over: transport).error().code == .bodyTooLarge)
                    _ = try await Sending(Request<Data>.get(server.url("/other")), over: transport).response()
                }
            }
        }

        /// A harmless response in a child process shows that the other tests fail only because of their responses.
        @Test func childProcessSurvivesAPlainAnswer() async {
            await #expect(processExitsWith: .success) {
                let result = try await outcome(of: .status(200, body: "hello"))
                #expect(try result.get().value == Data("hello".utf8))
            }
        }
    }

    @Suite struct CancelledRedirectTests {
        /// Corelibs traps if a redirect is decided after its task was cancelled.
        @Test func redirectMayBeCancelledAtAnyMoment() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let server = try TestServer(recording: .none)
                server.respond { _ in .redirect(to: "/") }
                for round in 0..<LongRuns.count(200, long: 1_000) {
                    let sending = Sending(Request<Data>.get(server.url()), over: URLSessionTransport.shared)
                    // Each round cancels slightly later.
                    for _ in 0..<round { await Task.yield() }
                    sending.operation.cancel()
                    // The error is the cancellation, or that of too many redirects.
                    _ = try await sending.error()
                }
            }
        }
    }

    /// Sends one request in this child process.
    private func outcome(of reply: Reply) async throws -> RequestOperation<Data>.Result {
        endProcessIfStuck()
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(reply)
        return try await Sending(Request<Data>.get(server.url()), over: URLSessionTransport.shared).result()
    }
#endif
