// Tests complete responses that cannot be decoded, with a policy that retries.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct UndecodableFaultTests {
        private struct User: Decodable, Sendable {
            var id: Int
        }

        private static func act(_ body: Data, _ contentType: String) -> ServerAct {
            let fields = contentType.isEmpty ? [] : [("Content-Type", contentType)]
            return ServerAct(
                testDescription: "", reply: .status(200, headerFields: fields, body: body),
                stub: { $0.answer(200, headerFields: HeaderFields(fields), body: body) })
        }

        private func expectUndecodable<Output: Decodable & Sendable>(
            _: Output.Type, _ ground: FaultGround, _ body: Data, _ contentType: String = ""
        ) async throws {
            let server = try ScriptedServer(ground, [Self.act(body, contentType)]) { configuration in
                configuration.retries.errorCodes.insert(.decodingFailed)
            }
            let error = try await server.error(of: Request<Output>.get(server.url()))
            #expect(error.code == .decodingFailed, "\(error)")
            #expect(error.body == body)
            #expect(error.response?.statusCode == 200)
            #expect(!error.isRetryable)
            #expect(error.description.isOneLine)
            #expect(error.attempts.map(\.failure) == [.decodingFailed])
            // The request is sent only once, because a retry would not help.
            #expect(server.seen.count == 1)
        }

        @Test(
            arguments: FaultGround.all,
            ["", " ", "{", "{}", "{\"id\":\"1\"}", "null", "nul", "[]", "<html>", "{\"id\":1} x"])
        func brokenJSONIsNotFetchedAgain(ground: FaultGround, text: String) async throws {
            try await expectUndecodable(User.self, ground, Data(text.utf8), "application/json")
        }

        @Test(
            arguments: FaultGround.all,
            [
                (Data([0x68, 0xFC]), ""), (Data([0x68, 0xFC]), "text/plain; charset=utf-8"),
                (Data([0xEF, 0xBB, 0xBF, 0xFF]), ""), (Data([0xC3]), "text/plain"),
                (Data([0x68, 0xFC]), "text/plain; charset=us-ascii"), (Data([0xFC]), "text/plain; charset=klingon"),
            ])
        func undecodableTextIsNotRetried(ground: FaultGround, answer: (body: Data, type: String)) async throws {
            try await expectUndecodable(String.self, ground, answer.body, answer.type)
        }

        /// The byte order mark takes precedence over the charset, and both over UTF-8.
        @Test(
            arguments: FaultGround.all,
            [
                (Data(), "", ""), (Data("hü".utf8), "", "hü"), (Data([0xEF, 0xBB, 0xBF, 0x68]), "", "h"),
                (Data([0xFF, 0xFE, 0x68, 0, 0xFC, 0]), "", "hü"), (Data([0xFE, 0xFF, 0, 0x68]), "", "h"),
                (Data([0xEF, 0xBB, 0xBF, 0x68]), "text/plain; charset=iso-8859-1", "h"),
                (Data([0x68, 0xFC]), "Text/Plain; Charset=ISO-8859-1", "hü"),
                (Data([0x80]), "text/plain; charset=windows-1252", "€"),
                (Data([0x68, 0, 0xFC, 0]), "text/plain; charset=\"utf-16le\"", "hü"),
            ])
        func textIsDecoded(ground: FaultGround, answer: (body: Data, type: String, text: String)) async throws {
            let server = try ScriptedServer(ground, [Self.act(answer.body, answer.type)])
            #expect(try await server.response(to: Request<String>.get(server.url())).value == answer.text)
        }

        @Test(arguments: FaultGround.all)
        func theLastBodyIsDecodedAfterARetry(ground: FaultGround) async throws {
            let server = try ScriptedServer(
                ground, [.answer(503, body: "{\"id\":1}"), .cutBody, .answer(200, body: "{\"id\":2}")])
            #expect(try await server.response(to: Request<User>.get(server.url())).value.id == 2)
        }
    }
}
