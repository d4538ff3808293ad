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
        let server = StubServer {
            $0.answer(500, pieces: Array(repeating: Data(repeating: 7, count: 1_000), count: 100))
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

@Suite struct ContentTypeCheckTests {
    private func send(
        _ accepted: [String], _ given: String?, statusCode: Int = 200, body: String = "b", method: HTTPMethod = .get
    ) async throws -> RequestOperation<Data>.Result {
        let server = StubServer { exchange in
            exchange.answer(
                statusCode, headerFields: given.map { ["content-type": $0] } ?? [:], body: Data(body.utf8))
        }
        var request = Request<Data>(method: method, url: "http://stub/a")
        if ContentTypeCheck.defect(of: accepted) == nil {
            request = request.changed { $0.policies.acceptableContentTypes = ContentTypeCheck(accepted) }
        }
        return try await Sending(request, over: server.transport).result()
    }

    @Test(
        arguments: [
            (["application/json"], "application/json", true), (["application/json"], "Application/JSON", true),
            (["APPLICATION/json"], "application/json; charset=utf-8", true),
            (["application/json"], " application/json ;a=b", true), (["application/json"], "application/jsonp", false),
            (["application/json"], "text/html", false), (["application/json", "text/html"], "text/html", true),
            (["image/*"], "image/png", true), (["image/*"], "IMAGE/svg+xml; a=\"b;c\"", true),
            (["image/*"], "images/png", false), (["image/*"], "text/image/png", false), (["*/*"], "a/b", true),
            // A body without a type, or with an invalid one, counts as a stream of bytes.
            (["application/json"], nil, false), (["application/octet-stream"], nil, true),
            (["application/*"], nil, true), (["*/*"], nil, true), (["application/json"], "json", false),
            (["application/*"], "a/b/c", true), (["application/json"], "", false), (["*/*"], "", true),
            (["application/json"], "application/json, text/html", false),
        ] as [([String], String?, Bool)])
    func typeIsComparedWithoutCaseAndParameters(accepted: [String], given: String?, isAccepted: Bool) async throws {
        let code = try await send(accepted, given).code
        #expect(code == (isAccepted ? nil : .unacceptableContentType))
    }

    @Test func unacceptableTypeKeepsHeadAndBody() async throws {
        let failure = try await send(["application/json", "image/*"], "text/html; charset=utf-8").failure
        let error = try #require(failure as? RequestError)
        #expect(error.code == .unacceptableContentType)
        #expect(
            error.message.contains(
                #"as "text/html; charset=utf-8" but the request accepts application/json, image/*"#))
        #expect(error.body == Data("b".utf8))
        #expect(error.response?.statusCode == 200)
        #expect(!error.isRetryable)
    }

    @Test func responsesWithoutABodyNeedNoContentType() async throws {
        for code in [204, 205] { #expect(try await send(["a/b"], nil, statusCode: code, body: "").code == nil) }
        #expect(try await send(["a/b"], nil, body: "").code == nil)
        #expect(try await send(["a/b"], "text/html", body: "", method: .head).code == nil)
    }

    @Test func theStatusIsLookedAtFirst() async throws {
        #expect(try await send(["a/b"], "text/html", statusCode: 404).code == .unacceptableStatus)
    }

    /// The page of a network's login portal is never saved in the requested file.
    @Test func nothingIsWrittenOfAnUnacceptableType() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("f")
        let server = StubServer { $0.answer(200, headerFields: ["Content-Type": "text/html"], body: Data("b".utf8)) }
        let request = Request.stub("a").acceptableContentTypes("application/zip").saved(to: file)
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .unacceptableContentType)
        #expect(try directory.entries.isEmpty)
    }

    @Test(
        arguments: [[], ["json"], ["a/b;c=d"], ["*/png"], ["a/"], ["/b"], ["a/b", "a b/c"], [""], ["*"]] as [[String]])
    func anInvalidContentTypeMakesTheRequestInvalid(types: [String]) {
        let reason = ContentTypeCheck.defect(of: types)
        #expect(reason?.isEmpty == false)
        #expect(Request.stub("a").acceptableContentTypes("json").defect == reason || types != ["json"])
    }
}
