import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

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

    /// - Parameter answer: responds to the exchange with this number, from 0.
    static func numbered(_ answer: @escaping @Sendable (StubExchange, Int) -> Void) -> StubServer {
        let count = Locked(0)
        return StubServer { exchange in
            let number = count.withLock { count in
                defer { count += 1 }
                return count
            }
            answer(exchange, number)
        }
    }

    /// The exchange with this number, from 1, after the stub has sent a head with status 200.
    func answered(_ number: Int = 1) async throws -> StubExchange {
        let exchanges = await exchanges.wait(count: number)
        let exchange = try #require(exchanges.count >= number ? exchanges[number - 1] : nil)
        exchange.respond(ResponseHead(statusCode: 200, url: exchange.request.url))
        return exchange
    }

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

    /// This stub, with a manager that sends through it.
    func withManager(
        _ limit: Int = 16, perHost: Int = 16, clock: VirtualClock? = nil
    ) -> (StubServer, RequestManager) {
        (self, manager(limit, perHost: perHost, clock: clock))
    }

    /// This stub, with an operation of no manager that sends through it.
    func withOperation() -> (StubServer, RequestOperation<Data>) {
        (self, RequestOperation(.stub("a"), transport: transport))
    }
}

/// A transport that calls a function before it makes a task.
final class HookedTransport: Transport {
    private let transport: any Transport
    private let hook: @Sendable (PreparedRequest, any TransportClient) throws(RequestError) -> Void

    init(
        _ transport: any Transport,
        hook: @escaping @Sendable (PreparedRequest, any TransportClient) throws(RequestError) -> Void
    ) {
        (self.transport, self.hook) = (transport, hook)
    }

    var pausesInPlace: Bool { transport.pausesInPlace }
    var isReentrant: Bool { transport.isReentrant }

    func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask {
        try hook(request, client)
        return try transport.makeTask(for: request, client: client)
    }
}

extension Request where Output == Data {
    /// A request to a stub, named after its path.
    static func stub(_ name: String, host: String = "stub") -> Request<Data> {
        .get("http://\(host)/\(name)").named(name)
    }
}

extension Result where Success: Sendable, Failure == RequestError {
    var code: RequestError.Code? { if case .failure(let error) = self { error.code } else { nil } }
}

struct ClosureMonitor: EventMonitor {
    let told: @Sendable (AnyRequestOperation, RequestEvent) -> Void

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) { told(operation, event) }
}

extension RequestManager {
    func cancelAndDrain() async {
        cancelAll()
        await drain()
    }

    /// Waits, without blocking, until earlier requests to suspend, resume and cancel tasks have been carried out.
    func tasksAreAdjusted() async {
        await withCheckedContinuation { continuation in
            scheduler.taskControl.async { continuation.resume() }
        }
    }
}

// Files that do not import `ConvoyTesting` use this name.
typealias VirtualClock = ConvoyTesting.VirtualClock

extension VirtualClock {
    struct ArmedTimers {
        fileprivate let clock: VirtualClock

        var count: Int { clock.timerCount }

        /// Waits until a total of `count` timers were set; an issue after 120 seconds.
        func wait(count: Int = 1, sourceLocation: SourceLocation = #_sourceLocation) async {
            do { try await clock.timersSet(count: count, within: .seconds(120)) } catch {
                Issue.record(error, sourceLocation: sourceLocation)
            }
        }
    }

    var armed: ArmedTimers { ArmedTimers(clock: self) }

    /// Advances to the next timer that is not cancelled; returns false if there is none.
    @discardableResult
    func advanceToNext() -> Bool { fireNext() }
}

extension Result {
    var failure: (any Error)? { if case .failure(let error) = self { error } else { nil } }
}

extension OperationQueue {
    func waitUntilAllOperationsAreFinished(within bound: Duration) async {
        let isEmpty = EventLog<Void>()
        addBarrierBlock { isEmpty.record(()) }
        await isEmpty.wait(within: bound)
    }
}

extension String {
    /// Whether the text is one line without a control character.
    var isOneLine: Bool {
        unicodeScalars.allSatisfy { !$0.properties.isWhitespace || $0 == " " || $0 == "\u{A0}" }
            && unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}

final class RecordingClient: TransportClient {
    enum Call: Equatable, Sendable {
        case head(Int)
        case data(Data)
        case sent(Int64)
        case end(RequestError.Code?)
    }

    let calls = EventLog<Call>()
    let maxChunkBytes: Int

    init(maxChunkBytes: Int = .max) { self.maxChunkBytes = maxChunkBytes }

    func didReceive(_ head: ResponseHead) { calls.record(.head(head.statusCode)) }
    func didReceive(_ data: Data) -> Bool {
        calls.record(.data(data))
        return true
    }
    func didPause() {}
    func didSend(totalBytes: Int64) { calls.record(.sent(totalBytes)) }
    func didFinish(_ error: RequestError?) { calls.record(.end(error?.code)) }
}

/// The texts that show values: their descriptions and their reflections.
func texts(showing values: Any...) -> String {
    values.map { value in
        var dumped = ""
        dump(value, to: &dumped)
        return "\(value) \(String(reflecting: value)) \(dumped)"
    }.joined(separator: "\n")
}
