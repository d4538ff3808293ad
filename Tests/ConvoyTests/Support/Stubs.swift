// Managers whose transport is a stub.
import Foundation
import Testing

@testable import Convoy

/// A stub transport with a log of its exchanges.
final class StubServer: Sendable {
    let exchanges = EventLog<StubExchange>()
    let transport: StubTransport

    /// - Parameter answer: responds at once; nil leaves the exchange to the test.
    init(
        pausesInPlace: Bool = true,
        answer: (@Sendable (StubExchange) -> Void)? = { $0.answer(200, body: Data("ok".utf8)) }
    ) {
        let exchanges = exchanges
        transport = StubTransport(pausesInPlace: pausesInPlace) { exchange in
            exchanges.record(exchange)
            answer?(exchange)
        }
    }

    /// A stub whose exchanges the test completes.
    static func held(pausesInPlace: Bool = true) -> StubServer { StubServer(pausesInPlace: pausesInPlace, answer: nil) }

    /// The exchange with this number, from 1, after the stub has sent a head with status 200.
    func answered(_ number: Int = 1) async throws -> StubExchange {
        let exchanges = await exchanges.wait(count: number)
        let exchange = try #require(exchanges.count >= number ? exchanges[number - 1] : nil)
        exchange.respond(ResponseHead(statusCode: 200, url: exchange.request.url))
        return exchange
    }

    /// The requested paths in order.
    var paths: [String] { exchanges.events.map { $0.request.url.path } }

    func manager(
        _ limit: Int = 16, perHost: Int = 16, monitors: [any EventMonitor] = [], callbacks: Delivery? = nil,
        queue: OperationQueue? = nil, clock: VirtualClock? = nil,
        configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: limit, maxConcurrentPerHost: perHost, transport: .custom(transport),
            callbacks: callbacks, monitors: monitors)
        if let clock { configuration.clock = clock }
        configure(&configuration)
        return queue.map { RequestManager(queue: $0, configuration: configuration) }
            ?? RequestManager(configuration: configuration)
    }
}

extension Request where Output == Data {
    /// A request to a stub, named after its path.
    static func stub(_ name: String, host: String = "stub") -> Request<Data> {
        .get("http://\(host)/\(name)").named(name)
    }
}

extension Result where Success: Sendable, Failure == RequestError {
    /// The error's code; nil for a success.
    var code: RequestError.Code? { if case .failure(let error) = self { error.code } else { nil } }
}

extension RequestManager {
    /// Waits until earlier requests to suspend, resume and cancel tasks have been carried out.
    ///
    /// It does not block, because the queue may need the waiting thread.
    func tasksAreAdjusted() async {
        await withCheckedContinuation { continuation in
            scheduler.context.taskControl.async { continuation.resume() }
        }
    }
}
