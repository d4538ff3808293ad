import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
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
        Report(code: .cannotConnectToHost, means: .connectionFailed),
        Report(code: .cannotFindHost, means: .connectionFailed),
        Report(code: .timedOut, means: .timedOut),
        Report(code: .timedOut, status: 200, means: .timedOut),
        Report(code: .cancelled, means: .cancelled),
        Report(code: .cancelled, status: 200, means: .cancelled),
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

    @Test func endWithoutAnErrorIsASuccess() throws {
        let client = RecordingClient()
        let delegate = SessionDelegate()
        let session = URLSession(configuration: .ephemeral)
        let url = try #require(URL(string: "http://stub/"))
        let task = session.dataTask(with: url)
        delegate.register(client, for: task, try PreparedRequest(Request<Data>.get(url).core, baseURL: nil), body: nil)
        delegate.urlSession(session, task: task, didCompleteWithError: nil)
        #expect(client.calls.events == [.end(nil)])
    }
}
