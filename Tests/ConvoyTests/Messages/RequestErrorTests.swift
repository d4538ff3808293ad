import Foundation
import Testing

@testable import Convoy

@Suite struct RequestErrorTests {
    @Test func descriptionIsCodeRequestAndMessage() {
        let error = RequestError(.timedOut, "nothing arrived", request: "GET http://stub/")
        #expect("\(error)" == "timedOut: GET http://stub/: nothing arrived")
        #expect(error.localizedDescription == "\(error)")
        #expect("\(RequestError(.cancelled, "it was cancelled"))" == "cancelled: it was cancelled")
    }

    @Test(arguments: RequestError.Code.all)
    func theCodeDecidesWhetherARetryCanHelp(code: RequestError.Code) {
        let isRetryable = [.timedOut, .connectionFailed, .connectionLost].contains(code)
        #expect(RequestError(code, "").isRetryable == isRetryable)
        #expect(RequestError(code, "", isRetryable: !isRetryable).isRetryable != isRetryable)
    }

    @Test func detailsOfATransportsErrorAreKept() async throws {
        let told = RequestError(
            .badResponse, "m", request: "GET mine", response: ResponseHead(statusCode: 999), body: Data("b".utf8),
            underlying: CancellationError(), isRetryable: true)
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.finish(told)
        }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.request == "GET mine")
        #expect(error.response?.statusCode == 999)
        #expect(error.message == "m" && error.isRetryable && error.underlying is CancellationError)
        #expect(error.body == Data("b".utf8))
    }

    /// Text from a peer or a file name must not break a log line.
    @Test func descriptionIsOneLineWhateverTheMessage() {
        let error = RequestError(.badResponse, "first\nsecond\r\nthird", request: "GET http://stub/")
        #expect(error.description.isOneLine)
    }

    @Test func endWithoutAResponseIsABadResponse() async throws {
        let server = StubServer { $0.finish() }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.code == .badResponse)
        #expect(error.request == "GET http://stub/a" && error.response == nil)
    }
}
