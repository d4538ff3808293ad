import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests the encoding of a URL, a JSON fragment, and the description of a failure.
@Suite struct EncodingExampleTests {
    @Test func unsafeCharactersAreEncodedAndAFragmentIsJSON() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.json("\"just text\""))
        struct Text: Decodable, Sendable {
            let text: String
            init(from decoder: any Decoder) throws {
                text = try decoder.singleValueContainer().decode(String.self)
            }
        }
        let manager = RequestManager()
        let url = server.url().absoluteString + "söng name/ü"
        #expect(try await manager.send(Request<Text>.get(url)).value.text == "just text")
        #expect(try await server.takeRequest().target == "/s%C3%B6ng%20name/%C3%BC")
    }

    @Test func aFailureHasADescription() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.json("{\"name\": 7}"))
        struct Person: Decodable, Sendable { let name: String }
        let operation = RequestManager().enqueue(Request<Person>.get(server.url("/person")))
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .decodingFailed)
        #expect(error?.localizedDescription.contains("at name: expected String, found number") == true)
        #expect(error?.body == Data("{\"name\": 7}".utf8))
    }
}
