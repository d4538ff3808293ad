// The stub that answers the code of the pages about migrations.
import Convoy
import ConvoyTesting
import Foundation

extension StubTransport {
    /// A user, an image, a report that is ready at the second request, and an empty response for everything else.
    nonisolated static func forMigrations() -> StubTransport {
        let stub = StubTransport()
        stub.route("/**", replies: .status(200))
        stub.route("/users/*", replies: .json(#"{"name": "Ada"}"#))
        stub.route("/me", replies: .json(#"{"name": "Ada"}"#))
        stub.route("/image.iso", replies: .status(200, body: Data("data".utf8)))
        stub.route("/report", replies: .status(503), .status(200))
        return stub
    }
}

/// Collects the values that callbacks on the main actor have shown.
final class Results<Value> {
    var all: [Value] = []
}
