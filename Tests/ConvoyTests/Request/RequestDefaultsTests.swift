import Foundation
import Testing

@testable import Convoy

@Suite struct RequestDefaultsTests {
    private struct Model: Codable, Sendable, Equatable {
        var firstName: String
        var date = Date(timeIntervalSince1970: 0)
    }

    private static let decoder = {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        decoder.dateDecodingStrategy = .iso8601
        return decoder
    }()

    private static let encoder = {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = .sortedKeys
        return encoder
    }()

    private static let json = #"{"date":"1970-01-01T00:00:00Z","first_name":"A"}"#

    private let server = StubServer { $0.answer(200, body: Data(Self.json.utf8)) }

    private func manager(_ configure: (inout RequestManager.Configuration) -> Void) -> RequestManager {
        server.manager(configure: configure)
    }

    private func sent(_ number: Int = 1) async throws -> PreparedRequest {
        try #require(await server.exchanges.wait(count: number).last).request
    }

    private func body(_ request: PreparedRequest) -> String? {
        guard case .data(let data)? = request.body else { return nil }
        return String(decoding: data, as: UTF8.self)
    }

    @Test func headerFieldsAreSentWithEachRequestThatHasNoneOfTheirName() async throws {
        let manager = manager { $0.headerFields = ["Accept-Language": "en", "X-App": "1", "X-Other": "2"] }
        let request = Request.stub("a").header("accept-language", "de").header("X-Other", nil)
        try await manager.send(request)
        let fields = try await sent().headerFields
        #expect(fields.values(of: "Accept-Language") == ["de"])
        #expect(fields["X-App"] == "1")
        #expect(!fields.contains("X-Other"))
        try await manager.send(request.header("X-Other", "3"))
        #expect(try await sent(2).headerFields.values(of: "X-Other") == ["3"])
    }

    @Test func secretsGoToTheOriginOfTheBaseOnly() async throws {
        var fields: HeaderFields = ["Authorization": "Bearer t", "X-App": "1"]
        fields.add("X-Key", "k", isSecret: true)
        let manager = manager { [fields] in
            $0.headerFields = fields
            $0.baseURL = URL(string: "http://stub/v1")
        }
        try await manager.send(Request<Data>.get("a"))
        #expect(try await sent().headerFields.map(\.name) == ["Authorization", "X-App", "X-Key"])
        try await manager.send(Request<Data>.get("http://other/a"))
        #expect(try await sent(2).headerFields.map(\.name) == ["X-App"])
        try await manager.send(Request<Data>.get("http://other/a").bearer("own"))
        #expect(try await sent(3).headerFields["Authorization"] == "Bearer own")
    }

    @Test func defaultsThatCannotBeAreRefusedWithTheRequest() async throws {
        let changes: [(String, (inout RequestManager.Configuration) -> Void)] = [
            ("the value of the header field X contains", { $0.headerFields = ["X": "a\r\nb"] }),
            ("the manager's idle timeout", { $0.idleTimeout = .zero }),
            ("the manager's attempt timeout", { $0.attemptTimeout = .zero }),
            ("the manager's deadline", { $0.deadline = .zero }),
            ("the manager's body size limit", { $0.maxBodyBytes = -1 }),
            ("waitsForConnectivity", { $0.waitsForConnectivity = true }),
        ]
        for (words, change) in changes {
            let manager = manager(change)
            let error = await manager.error(of: Request.stub("a"))
            #expect(error?.code == .invalidRequest)
            #expect(error?.message.contains(words) == true)
        }
        #expect(server.exchanges.count == 0)
    }

    @Test func decoderIsTheManagersUnlessTheRequestNamesOne() async throws {
        let manager = manager { $0.decoder = Self.decoder }
        #expect(try await manager.send(Request<Model>.get("http://stub/a")).value == Model(firstName: "A"))
        let mapped = Request<Model>.get("http://stub/a").map(\.firstName)
        #expect(try await manager.send(mapped).value == "A")
        let plain = Request<Model>.get("http://stub/a").decoding(with: JSONDecoder())
        #expect(await manager.error(of: plain)?.code == .decodingFailed)
        #expect(await server.manager().error(of: Request<Model>.get("http://stub/a"))?.code == .decodingFailed)
    }

    private struct Problem: Error, Codable, Equatable { var errorCode: Int }

    @Test func failuresAreDecodedByTheManagersDecoder() async throws {
        let server = StubServer { $0.answer(404, body: Data(#"{"error_code":7}"#.utf8)) }
        let manager = server.manager { $0.decoder = Self.decoder }
        let error = await manager.error(of: Request.stub("a").failing(with: Problem.self))
        #expect(error?.refusal(as: Problem.self) == Problem(errorCode: 7))
    }

    @Test func encoderIsTheManagersUnlessTheRequestNamesOne() async throws {
        let manager = manager { $0.encoder = Self.encoder }
        let model = Model(firstName: "A")
        try await manager.send(Request<Data>.post("http://stub/a", json: model))
        #expect(body(try await sent()) == Self.json)
        try await manager.send(Request<Void>.put("http://stub/a", json: model))
        #expect(body(try await sent(2)) == Self.json)
        let own = JSONEncoder()
        own.outputFormatting = .sortedKeys
        try await manager.send(Request<Data>.post("http://stub/a").json(model, encoder: own))
        #expect(body(try await sent(3)) == #"{"date":-978307200,"firstName":"A"}"#)
        try await manager.send(Request<Data>.post("http://stub/a").json(["d": model.date]))
        #expect(body(try await sent(4)) == #"{"d":"1970-01-01T00:00:00Z"}"#)
        try await server.manager().send(Request<Data>.post("http://stub/a", json: ["a": 1]))
        #expect(body(try await sent(5)) == #"{"a":1}"#)
    }

    @Test func defaultsReachLinksBatchesAndCompressedBodies() async throws {
        let (clock, server) = (VirtualClock(), StubServer { if $0.request.url.path != "/held" { $0.answer(200) } })
        let manager = server.manager(clock: clock) {
            $0.encoder = Self.encoder
            $0.headerFields = ["X-App": "1"]
            $0.deadline = .seconds(5)
        }
        let request = Request<Data>.post("http://stub/a", json: Model(firstName: "A"))
        let first = manager.operation(request)
        let second = manager.operation(after: first) { _ in request }
        let held = manager.operation(after: second) { _ in Request.stub("held") }
        manager.enqueue(first, second, held)
        await server.exchanges.wait(count: 3)
        clock.advance(by: .seconds(6))
        #expect(await #expect(throws: RequestError.self) { try await held.response() }?.code == .deadlineExceeded)
        _ = await manager.batch([request]).results
        try await manager.send(request.gzipped())
        let sent = server.exchanges.events.map(\.request)
        #expect(sent.map { $0.headerFields["X-App"] } == ["1", "1", "1", "1", "1"])
        #expect(sent.prefix(4).map(body) == [Self.json, Self.json, nil, Self.json])
        #expect(try sent[4].body == .data(Gzip.compress(Data(Self.json.utf8))))
    }

    /// The request is not encoded with a plain encoder first.
    @Test func aValueThatOnlyTheManagersEncoderCanEncodeIsSent() async throws {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        let manager = manager { $0.encoder = encoder }
        let request = Request<Data>.post("http://stub/a", json: ["a": [1, Double.nan]])
        #expect(request.defect == nil && request.body == nil)
        try await manager.send(request)
        #expect(body(try await sent()) == #"{"a":[1,"nan"]}"#)
        try await manager.send(Request<Data>.post("http://stub/a").json(["a": [Double.nan]]))
        #expect(body(try await sent(2)) == #"{"a":["nan"]}"#)
        let error = await server.manager().error(of: request)
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.hasPrefix("nothing was sent: the JSON body could not be encoded: a[1]: ") == true)
        #expect(throws: RequestError.self) { try request.cURLCommand() }
    }

    private struct Counted: Encodable, Sendable {
        let encodings: EventLog<Void>

        func encode(to encoder: any Encoder) throws {
            encodings.record(())
            var container = encoder.singleValueContainer()
            try container.encode(1)
        }
    }

    @Test(arguments: [true, false]) func aValueIsEncodedOnceForEachOperation(hasEncoder: Bool) async throws {
        let manager = manager { if hasEncoder { $0.encoder = Self.encoder } }
        let value = Counted(encodings: EventLog())
        let request = Request<Data>.post("http://stub/a", json: value)
        #expect(value.encodings.count == 0)
        let operation = manager.operation(request)
        #expect(value.encodings.count == 1)
        let copy = operation.copy()
        manager.enqueue(operation, copy)
        _ = (try await operation.response(), try await copy.response())
        #expect(try await body(sent(2)) == "1")
        #expect(value.encodings.count == 1)
    }

    private final class Changing: Encodable { var firstName = "A" }

    @Test func aValueThatIsNotSendableIsEncodedAtOnceOrRefused() async throws {
        let request = Request<Data>.post("http://stub/a", json: Changing())
        #expect(request.body == Data(#"{"firstName":"A"}"#.utf8))
        try await server.manager().send(request)
        #expect(body(try await sent()) == #"{"firstName":"A"}"#)
        let manager = manager { $0.encoder = Self.encoder }
        let error = await manager.error(of: request)
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("Changing is not Sendable, so the manager's encoder cannot encode it") == true)
        try await manager.send(Request<Data>.post("http://stub/a").json(Changing(), encoder: Self.encoder))
        #expect(body(try await sent(2)) == #"{"first_name":"A"}"#)
    }

    @Test func timeoutsAreTheManagersUnlessTheRequestSetsThem() async throws {
        let manager = manager {
            $0.idleTimeout = .seconds(7)
            $0.attemptTimeout = .seconds(8)
        }
        try await manager.send(.stub("a"))
        #expect(try await sent().idleTimeout == .seconds(7))
        #expect(try await sent().attemptTimeout == .seconds(8))
        try await manager.send(.stub("a").idleTimeout(.seconds(60)).attemptTimeout(nil))
        #expect(try await sent(2).idleTimeout == .seconds(60))
        #expect(try await sent(2).attemptTimeout == nil)
    }

    @Test func deadlineIsTheManagersUnlessTheRequestSetsOne() async throws {
        let (held, clock) = (StubServer.held(), VirtualClock())
        let manager = held.manager(clock: clock) { $0.deadline = .seconds(5) }
        let longer = manager.enqueue(.stub("b").deadline(.seconds(9)))
        let never = manager.enqueue(.stub("c").deadline(nil))
        await held.exchanges.wait(count: 2)
        clock.advance(by: .seconds(6))
        #expect(longer.result == nil)
        clock.advance(by: .seconds(6))
        #expect(await #expect(throws: RequestError.self) { try await longer.response() }?.code == .deadlineExceeded)
        for exchange in held.exchanges.events { exchange.answer(200) }
        try await never.response()
    }

    @Test func bodyLimitAndStatusCheckAreTheManagersUnlessTheRequestSetsThem() async throws {
        let server = StubServer { $0.answer(404, body: Data(count: 10)) }
        let manager = server.manager {
            $0.maxBodyBytes = 9
            $0.acceptableStatusCodes = .any
        }
        #expect(await manager.error(of: Request.stub("a"))?.code == .bodyTooLarge)
        #expect(try await manager.send(.stub("a").maxBodyBytes(10)).statusCode == 404)
        let checked = Request.stub("a").acceptableStatusCodes(.successful)
        #expect(await manager.error(of: checked)?.code == .unacceptableStatus)
    }
}
