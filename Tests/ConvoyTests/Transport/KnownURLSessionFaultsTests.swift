// Tests what is peculiar to URLSession on Linux: responses that crash a process, and the errors of its delegate.
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

#if os(Linux)
    // Receives responses that crash URLSession, each in a child process. These crashes are known issues until a
    // toolchain fixes them.
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

        // libcurl 7.88 does not leave a transfer that always has waiting bytes, and corelibs has one queue for all
        // transfers. Such a body cannot be cancelled, and it blocks all requests of the process until the server
        // pauses.
        @Test func bodyThatComesFasterThanItIsReadStopsEverything() async {
            await withKnownIssue(
                "libcurl: a transfer that is never waited for starves all others", isIntermittent: true
            ) {
                await #expect(processExitsWith: .success) {
                    endProcessIfStuck(after: 3)
                    let server = try TestServer()
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

    private func outcome(of reply: Reply) async throws -> RequestOperation<Data>.Result {
        endProcessIfStuck()
        let server = try TestServer()
        server.enqueue(reply)
        return try await Sending(Request<Data>.get(server.url()), over: URLSessionTransport.shared).result()
    }
#endif

/// Tests the meanings of errors that a loopback server cannot cause at will.
@Suite struct SessionDelegateTests {
    /// An error of the loader, whether the URL is https, the bytes of a body of ten that were received after the head,
    /// and the meaning.
    private static let reports:
        [(error: URLError.Code, text: String, isHTTPS: Bool, received: Int?, means: RequestError.Code)] = [
            (.cannotFindHost, "", false, nil, .connectionFailed),
            (.networkConnectionLost, "", false, nil, .connectionLost),
            (.networkConnectionLost, "", false, 5, .connectionLost),
            (.badServerResponse, "", false, nil, .connectionLost),
            (.unsupportedURL, "Unsupported protocol", false, nil, .badResponse),
            (.unknown, "Send failure: Broken pipe", false, nil, .connectionLost),
            (.unknown, "Send failure: Connection reset by peer", false, nil, .connectionLost),
            (.unknown, "Send failure: Broken pipe", true, nil, .connectionLost),
            (.unknown, "transfer closed with 5 bytes remaining to read", false, 5, .connectionLost),
            (.unknown, "Failed writing header", false, nil, .badResponse),
            (.unknown, "Too large response headers: 307242 > 307200", false, nil, .badResponse),
            (.unknown, "Error while processing content unencoding", false, 10, .badResponse),
            (.unknown, "Illegal or missing hexadecimal sequence in chunked-encoding", false, 5, .badResponse),
            (.unknown, "Failed writing received data to disk/application", false, 5, .badResponse),
            (.unknown, "SSL certificate problem: self-signed certificate", true, nil, .tlsFailed),
            (.secureConnectionFailed, "", true, nil, .tlsFailed),
            (.serverCertificateUntrusted, "", true, nil, .tlsFailed),
        ]

    @Test(arguments: reports.indices)
    func errorsOfTheLoaderAreTranslated(index: Int) async throws {
        let report = Self.reports[index]
        let client = RecordingClient()
        let delegate = SessionDelegate()
        let session = URLSession(configuration: .ephemeral)
        let url = try #require(URL(string: report.isHTTPS ? "https://stub/" : "http://stub/"))
        // The task is never resumed, and only provides an identifier and a request.
        let task = session.dataTask(with: url)
        delegate.register(client, for: task, try PreparedRequest(Request<Data>.get(url).core, baseURL: nil), body: nil)
        if let received = report.received {
            let response = try #require(
                HTTPURLResponse(url: url, statusCode: 200, httpVersion: nil, headerFields: ["Content-Length": "10"]))
            delegate.urlSession(session, dataTask: task, didReceive: response) { #expect($0 == .allow) }
            delegate.urlSession(session, dataTask: task, didReceive: Data(count: received))
        }
        let error = URLError(report.error, userInfo: [NSLocalizedDescriptionKey: report.text])
        delegate.urlSession(session, task: task, didCompleteWithError: error)
        // A second end, or a later event, has no receiver.
        delegate.urlSession(session, task: task, didCompleteWithError: nil)
        #expect(client.calls.events.last == .end(report.means), "\(report)")
        #expect(client.calls.events.count { if case .end = $0 { true } else { false } } == 1)
    }
}
