// Convoy without a network.
import Convoy
import ConvoyTesting
import Foundation

/// The managers and requests of the cases without a network.
enum Stub {
    /// A manager whose requests are answered at once, each with a 200 and two bytes.
    static func makeManager(limit: Int) -> RequestManager {
        let body = Data("ok".utf8)
        let transport = StubTransport { $0.answer(200, body: body) }
        return RequestManager(
            configuration: .init(
                maxConcurrentOperationCount: limit, maxConcurrentPerHost: limit, transport: .custom(transport)))
    }

    /// A request with a unique URL.
    static func request(_ index: Int) -> Request<Data> { .get("http://stub.test/item/\(index)") }
}
