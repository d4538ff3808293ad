// Tests what is peculiar to URLSession on Linux: responses that crash a process, and the errors of its delegate.
import ConvoyTesting
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
        defer { server.shutDown() }
        server.enqueue(reply)
        return try await Sending(Request<Data>.get(server.url()), over: URLSessionTransport.shared).result()
    }
#endif

/// Tests the meanings of errors that a loopback server cannot cause at will.
@Suite struct SessionDelegateTests {
    private struct Report: CustomTestStringConvertible, Sendable {
        var code: URLError.Code
        var text = ""
        var url = "http://stub/"
        var status: Int?
        var announced = 10
        var received = 0
        var means: RequestError.Code?

        var testDescription: String { "\(url) \(code.rawValue) \(text), status \(status ?? 0)" }
    }

    private static let reports: [Report] = [
        Report(code: .cannotFindHost, means: .connectionFailed),
        Report(code: .networkConnectionLost, means: .connectionLost),
        Report(code: .networkConnectionLost, status: 200, received: 5, means: .connectionLost),
        Report(code: .badServerResponse, means: .connectionLost),
        Report(code: .unsupportedURL, text: "Unsupported protocol", means: .badResponse),
        Report(code: .unknown, text: "Send failure: Broken pipe", means: .connectionLost),
        Report(code: .unknown, text: "Send failure: Connection reset by peer", means: .connectionLost),
        Report(code: .unknown, text: "Send failure: Broken pipe", url: "https://stub/", means: .connectionLost),
        Report(
            code: .unknown, text: "transfer closed with 5 bytes remaining to read", status: 200, received: 5,
            means: .connectionLost),
        Report(code: .unknown, text: "Failed writing header", means: .badResponse),
        Report(code: .unknown, text: "Too large response headers: 307242 > 307200", means: .badResponse),
        Report(
            code: .unknown, text: "Error while processing content unencoding", status: 200, received: 10,
            means: .badResponse),
        Report(
            code: .unknown, text: "Illegal or missing hexadecimal sequence in chunked-encoding", status: 200,
            received: 5, means: .badResponse),
        Report(
            code: .unknown, text: "Failed writing received data to disk/application", status: 200, received: 5,
            means: .badResponse),
        Report(
            code: .unknown, text: "SSL certificate problem: self-signed certificate", url: "https://stub/",
            means: .tlsFailed),
        Report(code: .secureConnectionFailed, url: "https://stub/", means: .tlsFailed),
        Report(code: .serverCertificateUntrusted, url: "https://stub/", means: .tlsFailed),
    ]

    @Test(arguments: reports.indices)
    func errorsOfTheLoaderAreTranslated(index: Int) async throws {
        let report = Self.reports[index]
        let client = RecordingClient()
        let delegate = SessionDelegate()
        let session = URLSession(configuration: .ephemeral)
        let url = try #require(URL(string: report.url))
        // The task is never resumed, and only provides an identifier and a request.
        let task = session.dataTask(with: url)
        delegate.register(client, for: task, try PreparedRequest(Request<Data>.get(url).core, baseURL: nil), body: nil)
        if let status = report.status {
            let response = try #require(
                HTTPURLResponse(
                    url: url, statusCode: status, httpVersion: nil,
                    headerFields: ["Content-Length": "\(report.announced)"]))
            delegate.urlSession(session, dataTask: task, didReceive: response) { #expect($0 == .allow) }
            if report.received > 0 {
                delegate.urlSession(session, dataTask: task, didReceive: Data(count: report.received))
            }
        }
        let error = URLError(report.code, userInfo: [NSLocalizedDescriptionKey: report.text])
        delegate.urlSession(session, task: task, didCompleteWithError: error)
        // A second end, or a later event, has no receiver.
        delegate.urlSession(session, task: task, didCompleteWithError: nil)
        #expect(client.calls.events.last == .end(report.means), "\(report)")
        #expect(client.calls.events.count { if case .end = $0 { true } else { false } } == 1)
    }
}
