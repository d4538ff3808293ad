import Foundation
import Testing

@testable import Convoy

@Suite struct StatusCheckTests {
    @Test(arguments: [
        (199, false), (200, true), (204, true), (299, true), (300, false), (304, false), (404, false), (500, false),
    ])
    func successfulIs200To299(statusCode: Int, isAccepted: Bool) {
        #expect(StatusCheck.successful(statusCode) == isAccepted)
        #expect(StatusCheck.any(statusCode))
    }

    @Test func codesAreExactlyThese() {
        let check = StatusCheck.codes([200, 404])
        #expect(check(200) && check(404))
        #expect(!check(201) && !check(403))
        #expect(StatusCheck.range(100...399)(399))
    }

    /// A retry may help with some of the status codes.
    @Test(arguments: [
        (408, true), (425, true), (429, true), (500, true), (502, true), (503, true), (504, true), (301, false),
        (302, false), (304, false), (400, false), (401, false), (403, false), (404, false), (410, false),
        (418, false), (501, false), (999, false),
    ])
    func unacceptableStatusKeepsHeadAndBody(statusCode: Int, isRetryable: Bool) async throws {
        let server = StubServer { $0.answer(statusCode, headerFields: ["X-Why": "because"], body: Data("sorry".utf8)) }
        let error = try await Sending(Request<Int>.get("http://stub/a"), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.isRetryable == isRetryable)
        #expect(error.response?.statusCode == statusCode)
        #expect(error.response?.headerFields["x-why"] == "because")
        #expect(error.body == Data("sorry".utf8))
        #expect(error.request == "GET http://stub/a")
        #expect(error.message.contains("\(statusCode)"))
    }

    @Test func bodyOfAnUnacceptableAnswerIsKeptUpTo64KiB() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 500))
            for _ in 0..<100 { exchange.send(Data(repeating: 7, count: 1_000)) }
            exchange.finish()
        }
        // The request's own limit applies only to an acceptable response.
        let error = try await Sending(.stub("a").maxBodyBytes(10), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data(repeating: 7, count: 65_536))
    }

    @Test func acceptedErrorStatusIsDecoded() async throws {
        let server = StubServer { $0.answer(404, body: Data("none".utf8)) }
        let request = Request<String>.get("http://stub/").acceptableStatusCodes(.codes([200, 404]))
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.statusCode == 404)
        #expect(response.value == "none")
        let error = try await Sending(.stub("a").acceptableStatusCodes(.codes([200])), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
    }
}
