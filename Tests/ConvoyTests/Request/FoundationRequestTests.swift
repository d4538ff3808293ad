import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct FoundationRequestTests {
    private func foundation(_ url: String = "http://stub/a?q=1", _ change: (inout URLRequest) -> Void) throws
        -> URLRequest
    {
        var request = URLRequest(url: try #require(URL(string: url)))
        change(&request)
        return request
    }

    @Test func aRequestOfFoundationsIsSentAsItIs() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(200, body: "ok"), .status(200, body: "ok")])
        let given = try foundation(server.url("/a?q=1").absoluteString) {
            $0.httpMethod = "PUT"
            $0.setValue("text/plain", forHTTPHeaderField: "Content-Type")
            $0.addValue("b", forHTTPHeaderField: "X-A")
            $0.httpBody = Data("body".utf8)
        }
        #expect(try await RequestManager().send(Request(given)).value == Data("ok".utf8))
        #expect(try await RequestManager().send(Request<String>(given)).value == "ok")
        let received = try await server.takeRequest()
        #expect(received.method == "PUT")
        #expect(received.target == "/a?q=1")
        #expect(received.value(of: "Content-Type") == "text/plain")
        #expect(received.value(of: "X-A") == "b")
        #expect(received.bodyText == "body")
    }

    @Test func aStreamIsSentOnce() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(200), .status(200)])
        for length in [nil, "4"] {
            let given = try foundation(server.url().absoluteString) {
                $0.httpMethod = "POST"
                $0.httpBodyStream = InputStream(data: Data("body".utf8))
                $0.setValue(length, forHTTPHeaderField: "Content-Length")
            }
            let request = Request<Void>(given)
            try await RequestManager().send(request)
            #expect(try await server.takeRequest().bodyText == "body")
            #expect(await RequestManager().error(of: request)?.code == .bodyNotReplayable)
        }
        // The length of a stream is checked like that of other streams.
        for length in ["-1", "-5", "0"] {
            let given = try foundation {
                $0.httpMethod = "POST"
                $0.httpBodyStream = InputStream(data: Data("body".utf8))
                $0.setValue(length, forHTTPHeaderField: "Content-Length")
            }
            let prepared = try? PreparedRequest(Request<Void>(given).core, baseURL: nil)
            #expect(prepared?.body?.byteCount == (length == "0" ? 0 : nil))
        }
    }

    @Test func aTimeoutOtherThanFoundationsOwnIsTheIdleTimeout() throws {
        var without = try foundation { _ in }
        without.url = nil
        #expect(Request<Data>(without).defect != nil)
        let request = try foundation { $0.timeoutInterval = 2.5 }
        #expect(Request<Data>(request).core.policies.idleTimeout == .seconds(2.5))
        for timeout in [60.0, 0, -1] {
            let request = try foundation { $0.timeoutInterval = timeout }
            #expect(Request<Data>(request).core.policies.idleTimeout == nil)
        }
        let endless = try foundation { $0.timeoutInterval = .infinity }
        #expect(Request<Data>(endless).core.policies.idleTimeout == .seconds(1_000_000_000))
    }

    @Test func aRequestBecomesOneOfFoundations() throws {
        let request = Request<Data>.post("a?q=1").header("X-A", "b").body(Data("body".utf8)).idleTimeout(.seconds(5))
        let given = try URLRequest(request, relativeTo: URL(string: "http://stub/v1"))
        #expect(given.url?.absoluteString == "http://stub/v1/a?q=1")
        #expect(given.httpMethod == "POST")
        #expect(given.value(forHTTPHeaderField: "X-A") == "b")
        #expect(given.httpBody == Data("body".utf8))
        #expect(given.timeoutInterval == 5)
        let error = #expect(throws: RequestError.self) { try URLRequest(Request<Data>.get("a")) }
        #expect(error?.code == .invalidRequest)
    }

    @Test func aBodyThatIsNotInMemoryBecomesAStream() throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("f")
        try Data("body".utf8).write(to: file)
        let stream = try #require(
            URLRequest(Request<Data>.post("http://stub/").body(fromFile: file)).httpBodyStream)
        stream.open()
        defer { stream.close() }
        var bytes = [UInt8](repeating: 0, count: 10)
        #expect(stream.read(&bytes, maxLength: 10) == 4)
        #expect(Data(bytes.prefix(4)) == Data("body".utf8))
    }

    @Test func anAnswerBecomesOneOfFoundations() async throws {
        let server = StubServer {
            $0.respond(ResponseHead(statusCode: 203, headerFields: ["X-A": "1", "x-a": "2", "B": "3"]))
            $0.finish()
        }
        let response = try await server.manager().send(.stub("a"))
        let given = try #require(HTTPURLResponse(response))
        #expect(given.statusCode == 203)
        #expect(given.url?.absoluteString == "http://stub/a")
        #expect(given.value(forHTTPHeaderField: "X-A") == "1, 2")
        #expect(given.value(forHTTPHeaderField: "b") == "3")
        #expect(HTTPURLResponse(response.head) == nil)
    }

    /// A transport accepts this many fields.
    ///
    /// Comparing each with all previous ones would take seconds.
    @Test func thousandsOfFieldsAreConvertedQuickly() throws {
        let fields = HeaderFields((0..<5_000).map { ("X-Field-\($0)", "1") } + [("x-fIELD-7", "2")])
        let head = ResponseHead(statusCode: 200, headerFields: fields, url: URL(string: "http://stub/"))
        let given = try #require(HTTPURLResponse(head))
        #expect(given.allHeaderFields.count == 5_000 && given.value(forHTTPHeaderField: "X-Field-7") == "1, 2")
    }

    @Test func theNSErrorHasCodeDescriptionAndStatus() throws {
        let given = RequestError(
            .unacceptableStatus, "no", request: "GET http://stub/", response: ResponseHead(statusCode: 404),
            underlying: RequestError(.timedOut, "inner"))
        let error = given as NSError
        #expect(error.domain == "Convoy.RequestError")
        #expect(error.code == 200)
        #expect(error.localizedDescription == "unacceptableStatus: GET http://stub/: no")
        #expect(error.userInfo["HTTPStatusCode"] as? Int == 404)
        #expect((error.userInfo[NSUnderlyingErrorKey] as? NSError)?.code == 101)
    }
}
