// A server with scripted failures: on loopback for a real transport, or as a stub.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Serializes the suites of a manager with retries.
///
/// Some of these suites start child processes, and others lose connections of URLSession. A socket that is closed
/// while a child process has a copy stays in libdispatch's epoll set. The next event of such a socket crashes this
/// process.
@Suite(.serialized) enum FaultsWithRepeats {}

/// The transport of a test: a real one to a server on loopback, or a stub.
struct FaultGround: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The real transport; nil for the stub.
    let transport: (any Transport)?

    static let wire = ConformingTransport.all.map { FaultGround(testDescription: $0.name, transport: $0.transport) }
    static let all = wire + [FaultGround(testDescription: "stub", transport: nil)]

    var isURLSession: Bool { transport is URLSessionTransport }
}

/// The server's behaviour for one request, over the network and as a stub.
struct ServerAct: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let reply: Reply
    let stub: @Sendable (StubExchange) -> Void
    /// The status code in the record of the attempt; nil without a response.
    var statusCode: Int?
    var failure: RequestError.Code?

    static func answer(_ statusCode: Int, _ fields: [(String, String)] = [], body: String = "") -> ServerAct {
        ServerAct(
            testDescription: "\(statusCode)", reply: .status(statusCode, headerFields: fields, body: body),
            stub: { $0.answer(statusCode, headerFields: HeaderFields(fields), body: Data(body.utf8)) },
            statusCode: statusCode)
    }

    /// A redirect with a body.
    static func redirect(_ statusCode: Int = 302, to location: String) -> ServerAct {
        answer(statusCode, [("Location", location)], body: "moved")
    }

    /// The server reads the request and sends nothing.
    static let closes = lost("FIN before the status", .status(200).disconnecting(afterBytes: 0), head: nil)
    static let resets = lost("RST before the status", .status(200).resetting(afterBytes: 0), head: nil)
    /// The server sends four bytes of ten.
    static let cutBody = lost("FIN in the body", .raw(tenBytes + "half"))
    static let resetBody = lost(
        "RST in the body", .status(200, body: "half567890").performing(.reset, at: .responseBody(afterBytes: 4)))
    static let cutChunks = lost(
        "no last chunk", .raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
        head: ResponseHead(statusCode: 200))
    static let losses = [closes, resets, cutBody, resetBody, cutChunks]

    private static let tenBytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"

    private static func lost(
        _ name: String, _ reply: Reply, head: ResponseHead? = ResponseHead(statusCode: 200, expectedBytes: 10)
    ) -> ServerAct {
        ServerAct(
            testDescription: name, reply: reply,
            stub: { exchange in
                if let head {
                    exchange.respond(head)
                    exchange.send(Data("half".utf8))
                }
                exchange.finish(RequestError(.connectionLost, "lost, as scripted"))
            }, statusCode: head?.statusCode, failure: .connectionLost)
    }

    /// An endless response.
    ///
    /// A stub leaves the exchange open.
    static func endless(_ name: String, _ reply: Reply, stub: @escaping @Sendable (StubExchange) -> Void) -> ServerAct {
        ServerAct(testDescription: name, reply: reply, stub: stub)
    }
}

/// A request as the server received it.
struct SeenRequest: Sendable {
    let method: String
    /// The path and the query.
    let target: String
    let fields: HeaderFields
    let body: Data
    /// The virtual time that had passed when the request arrived.
    let at: Duration
}

/// A scripted server, and a manager that uses it in virtual time.
final class ScriptedServer: Sendable {
    typealias Script = @Sendable (_ request: SeenRequest, _ index: Int) -> ServerAct

    let manager: RequestManager
    let clock: VirtualClock
    let requests = EventLog<SeenRequest>()
    /// The server on loopback; nil for a stub.
    let wire: TestServer?

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - clock: a clock that the test moves. Without one, time passes as soon as a timer is set.
    ///   - script: the behaviour for each request, numbered from 0.
    init(
        _ ground: FaultGround, clock: VirtualClock? = nil,
        configure: (inout RequestManager.Configuration) throws -> Void = { _ in }, script: @escaping Script
    ) throws {
        let (requests, virtual, count) = (requests, clock ?? VirtualClock(), Locked(0))
        let act = { @Sendable (request: SeenRequest) in
            let index = count.withLock { count in
                defer { count += 1 }
                return count
            }
            requests.record(request)
            return script(request, index)
        }
        var configuration: RequestManager.Configuration
        if let transport = ground.transport {
            let server = try TestServer()
            server.respond { request in
                act(
                    SeenRequest(
                        method: request.method, target: request.target,
                        fields: HeaderFields(request.headerFields.map { ($0.name, $0.value) }), body: request.body,
                        at: virtual.elapsed)
                ).reply
            }
            wire = server
            configuration = RequestManager.Configuration(transport: .custom(transport))
        } else {
            let stub = StubTransport { act(SeenRequest($0.request, at: virtual.elapsed)).stub($0) }
            wire = nil
            configuration = RequestManager.Configuration(transport: .custom(stub))
        }
        configuration.clock = clock ?? EagerClock(virtual)
        configuration.retries = .standard
        configuration.retryBudget = .unlimited
        configuration.jitter = { 0.5 }
        try configure(&configuration)
        self.clock = virtual
        manager = RequestManager(configuration: configuration)
    }

    /// Starts a server with these behaviours in order; the last is repeated.
    convenience init(
        _ ground: FaultGround, clock: VirtualClock? = nil, _ acts: [ServerAct],
        configure: (inout RequestManager.Configuration) throws -> Void = { _ in }
    ) throws {
        try self.init(ground, clock: clock, configure: configure) { _, index in acts[min(index, acts.count - 1)] }
    }

    deinit { wire?.shutDown() }

    var seen: [SeenRequest] { requests.events }

    func url(_ target: String = "/a") -> String { wire?.url(target).absoluteString ?? "http://stub\(target)" }
    /// The host for a `Location`.
    var authority: String { wire.map { "127.0.0.1:\($0.port)" } ?? "stub" }

    /// Sends a request and waits for its outcome.
    ///
    /// A second outcome is an issue.
    func result<Output>(
        of request: Request<Output>, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> RequestOperation<Output>.Result {
        let outcomes = EventLog<RequestOperation<Output>.Result>()
        manager.enqueue(request) { outcomes.record($0) }
        let result = try #require(await outcomes.wait(sourceLocation: sourceLocation).first)
        await manager.drain()
        #expect(outcomes.count == 1, sourceLocation: sourceLocation)
        return result
    }

    func response<Output>(
        to request: Request<Output>, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Response<Output> {
        try await result(of: request, sourceLocation: sourceLocation).get()
    }

    func error<Output>(
        of request: Request<Output>, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> RequestError {
        let result = try await result(of: request, sourceLocation: sourceLocation)
        return try #require(result.failure as? RequestError, "it succeeded", sourceLocation: sourceLocation)
    }
}

extension SeenRequest {
    fileprivate init(_ request: PreparedRequest, at: Duration) {
        let body: Data =
            switch request.body {
            case .data(let data): data
            case .file(let file, _): (try? Data(contentsOf: file)) ?? Data()
            case nil, .joined, .stream: Data()
            }
        let path = request.url.path(percentEncoded: true)
        self.init(
            method: request.method.rawValue,
            target: path + (request.url.query(percentEncoded: true).map { "?" + $0 } ?? ""),
            fields: request.headerFields, body: body, at: at)
    }
}

/// A clock that moves to the time of each timer as soon as the timer is set.
private final class EagerClock: RequestClock {
    private let virtual: VirtualClock
    private let queue = DispatchQueue(label: "convoy.eager-clock")

    init(_ virtual: VirtualClock) { self.virtual = virtual }

    var now: ContinuousClock.Instant { virtual.now }
    var date: Date { virtual.date }

    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer {
        defer { queue.async { [virtual] in virtual.advanceToNext() } }
        return virtual.wake(at: instant, work)
    }
}
