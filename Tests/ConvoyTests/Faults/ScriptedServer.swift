// A server with scripted failures on loopback.
import Convoy
import Foundation
import Testing

/// Serializes the suites of a manager with retries.
///
/// Some of these suites start child processes, and others lose connections of URLSession. A socket that is closed
/// while a child process has a copy stays in libdispatch's epoll set. The next event of such a socket crashes this
/// process.
@Suite(.serialized) enum FaultsWithRepeats {}

extension ConformingTransport {
    var isURLSession: Bool { transport is URLSessionTransport }
}

/// The server's behaviour for one request, and what the record of the attempt says.
struct ServerAct: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let reply: Reply
    /// Nil without a response.
    var statusCode: Int?
    var failure: RequestError.Code?

    init(_ name: String, _ reply: Reply, statusCode: Int? = nil, failure: RequestError.Code? = nil) {
        (testDescription, self.reply, self.statusCode, self.failure) = (name, reply, statusCode, failure)
    }

    init(_ reply: Reply) { self.init("", reply) }

    static func answer(_ statusCode: Int, _ fields: [(String, String)] = [], body: String = "") -> ServerAct {
        ServerAct(
            "\(statusCode)", .status(statusCode, headerFields: fields, body: body), statusCode: statusCode)
    }

    /// A redirect with a body.
    static func redirect(_ statusCode: Int = 302, to location: String) -> ServerAct {
        answer(statusCode, [("Location", location)], body: "moved")
    }

    /// The server reads the request and sends nothing.
    static let closes = lost("FIN before the status", .status(200).disconnecting(afterBytes: 0), statusCode: nil)
    static let resets = lost("RST before the status", .status(200).resetting(afterBytes: 0), statusCode: nil)
    /// The server sends four bytes of ten.
    static let cutBody = lost("FIN in the body", .raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
    static let resetBody = lost(
        "RST in the body", .status(200, body: "half567890").performing(.reset, at: .responseBody(afterBytes: 4)))
    static let cutChunks = lost(
        "no last chunk", .raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"))
    static let losses = [closes, resets, cutBody, resetBody, cutChunks]

    private static func lost(_ name: String, _ reply: Reply, statusCode: Int? = 200) -> ServerAct {
        ServerAct(name, reply, statusCode: statusCode, failure: .connectionLost)
    }
}

extension RecordedRequest {
    var fields: HeaderFields { HeaderFields(headerFields.map { ($0.name, $0.value) }) }
}

/// A scripted server, and a manager that uses it in virtual time.
final class ScriptedServer: Sendable {
    typealias Script = @Sendable (_ request: RecordedRequest, _ index: Int) -> ServerAct

    let manager: RequestManager
    let clock: VirtualClock
    let requests = EventLog<RecordedRequest>()
    /// The virtual time that had passed when each request arrived.
    let times = EventLog<Duration>()
    let wire: TestServer

    /// - Parameters:
    ///   - clock: a clock that the test moves. Without one, time passes as soon as a timer is set.
    ///   - script: the behaviour for each request, numbered from 0.
    init(
        _ ground: ConformingTransport, clock: VirtualClock? = nil,
        configure: (inout RequestManager.Configuration) throws -> Void = { _ in }, script: @escaping Script
    ) throws {
        let (requests, times, virtual, count) = (requests, times, clock ?? VirtualClock(), Locked(0))
        let server = try TestServer()
        server.respond { request in
            let index = count.countUp() - 1
            times.record(virtual.elapsed)
            requests.record(request)
            return script(request, index).reply
        }
        var configuration = RequestManager.Configuration(transport: .custom(ground.transport))
        configuration.clock = clock ?? EagerClock(virtual)
        configuration.retries = .standard
        configuration.retryBudget = .unlimited
        configuration.jitter = { 0.5 }
        try configure(&configuration)
        (self.clock, wire) = (virtual, server)
        manager = RequestManager(configuration: configuration)
    }

    /// Starts a server with these behaviours in order; the last is repeated.
    convenience init(
        _ ground: ConformingTransport, clock: VirtualClock? = nil, _ acts: [ServerAct],
        configure: (inout RequestManager.Configuration) throws -> Void = { _ in }
    ) throws {
        try self.init(ground, clock: clock, configure: configure) { _, index in acts[min(index, acts.count - 1)] }
    }

    deinit { wire.shutDown() }

    var seen: [RecordedRequest] { requests.events }

    func url(_ target: String = "/a") -> String { wire.url(target).absoluteString }
    /// The host for a `Location`.
    var authority: String { "127.0.0.1:\(wire.port)" }

    /// The outcome of a request; a second one is an issue.
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

/// Damages valid responses, as a function of a seed.
struct ReplyMutator {
    private var random: SeededGenerator
    private let target: String

    init(seed: UInt64, redirectingTo target: String) {
        (random, self.target) = (SeededGenerator(seed: seed), target)
    }

    /// Returns the raw bytes, and whether the connection ends after them.
    mutating func makeReply() -> (bytes: Data, closes: Bool) {
        var (lines, body) = validReply()
        let count = below(8) == 0 ? 0 : 1 + below(3)
        for _ in 0..<count where below(2) == 0 { changeHeader(&lines) }
        if below(3) == 0 { changeBody(&body) }
        var bytes = lines.reduce(into: Data()) { $0.append($1) }
        bytes.append(body)
        for _ in 0..<count where below(3) == 0 { changeBytes(&bytes) }
        return (bytes, below(4) != 0)
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
    private mutating func one<Element>(of list: [Element]) -> Element { list[below(list.count)] }

    private static func line(_ text: String) -> Data { Data((text + "\r\n").utf8) }

    private static let gzip =
        Data(base64Encoded: "H4sIAAAAAAACA0vOzyvLr1RIHqVGqVFqlBqlRqlRapTCRwEAiHc6/zQIAAA=") ?? Data()

    private mutating func validReply() -> (lines: [Data], body: Data) {
        let body = Data((0..<below(3_000)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 33) })
        let more = (0..<below(4)).map { "X-\($0): \(String(repeating: "v", count: 1 + $0 * 40))" }
        func reply(_ status: String, _ fields: [String], _ body: Data = Data()) -> ([Data], Data) {
            (([status] + more + fields + [""]).map(Self.line), body)
        }
        switch below(10) {
        case 0...2: return reply("HTTP/1.1 200 OK", ["Content-Length: \(body.count)"], body)
        case 3, 4: return reply("HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"], chunked(body))
        case 5: return reply("HTTP/1.1 200 OK", ["Connection: close"], body)
        case 6:
            let fields = ["Content-Encoding: gzip", "Content-Length: \(Self.gzip.count)"]
            return reply("HTTP/1.1 200 OK", fields, Self.gzip)
        case 7:
            let (lines, body) = reply("HTTP/1.1 200 OK", ["Content-Length: \(body.count)"], body)
            return (["HTTP/1.1 103 Early Hints", "Link: </a>", ""].map(Self.line) + lines, body)
        case 8: return reply("HTTP/1.1 302 Found", ["Location: \(target)", "Content-Length: 5"], Data("moved".utf8))
        default: return reply(one(of: ["HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified"]), [])
        }
    }

    private mutating func chunked(_ body: Data) -> Data {
        var (rest, bytes) = (body[...], Data())
        while !rest.isEmpty {
            let chunk = rest.prefix(1 + below(900))
            bytes += Self.line(String(chunk.count, radix: 16)) + chunk + Self.line("")
            rest = rest.dropFirst(chunk.count)
        }
        return bytes + Self.line("0") + (below(3) == 0 ? Self.line("X-Trailer: t") : Data()) + Self.line("")
    }

    private static let fields = [
        "Content-Length: 0", "Content-Length: 5", "Content-Length: -1", "Content-Length: 5, 5", "Content-Length: 5, 6",
        "Content-Length: 0x5", "Content-Length:", "Content-Length: 99999999999999999999", "Content-Length: 4 4",
        "Transfer-Encoding: chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity",
        "Transfer-Encoding : chunked", "Content-Encoding: gzip", "Content-Encoding: br", "Content-Encoding: x",
        "Content-Encoding: deflate, gzip", "Connection: close", "Connection: keep-alive, close", "Location: /else",
        "Location: http://[", "Location:", "Retry-After: 0", "Set-Cookie: a=b; Path=/", "Upgrade: h2c", "Trailer: X",
        "WWW-Authenticate: Basic realm=\"", "Alt-Svc: h3=\":1\"", "Strict-Transport-Security: max-age=1", "X-A", ": b",
        "X\0: b", "X-A: a\0b", "X A: b",
    ]

    private mutating func changeHeader(_ lines: inout [Data]) {
        guard lines.count > 1 else { return }
        let index = below(lines.count)
        switch below(10) {
        case 0, 1:
            let folded = " folded: \(String(repeating: "z", count: 1 + below(200)))"
            lines.insert(Self.line(one(of: [folded, "\tf", " "])), at: one(of: [1, index]))
        case 2: lines.insert(lines[index], at: below(lines.count))
        case 3: lines.remove(at: index)
        case 4: lines.swapAt(index, below(lines.count))
        case 5:
            lines[index] = lines[index].dropLast(2) + one(of: [Data([10]), Data([13]), Data(), Data([13, 13, 10])])
        case 6:
            let status = one(of: [
                "100", "101", "204", "205", "206", "304", "999", "099", "-200", "302", "407", "503", "",
            ])
            let version = one(of: ["HTTP/1.1", "HTTP/1.0", "HTTP/2", "http/1.1", "HTTP/0.9", "ICY", " HTTP/1.1"])
            lines[0] = Self.line("\(version) \(status) Status")
        case 7: lines.insert(Self.line("X-Long: " + String(repeating: "l", count: below(20_000))), at: index)
        default: lines.insert(Self.line(one(of: Self.fields)), at: max(1, index))
        }
    }

    private mutating func changeBody(_ body: inout Data) {
        switch below(5) {
        case 0: body += Data("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".utf8)
        case 1: body = body.prefix(below(body.count + 1))
        case 2:
            let size = one(of: [
                "g", "-5", "FFFFFFFFFFFFFFFFF", "5;a=\"b", "0x5", " 5", "7fffffffffffffff", "00000005", "",
            ])
            body = Self.line(size) + body
        case 3: body = Data(String(decoding: body.prefix(40), as: UTF8.self).uppercased().utf8) + body.dropFirst(40)
        default: body.append(contentsOf: (0..<below(40)).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    private mutating func changeBytes(_ bytes: inout Data) {
        guard !bytes.isEmpty else { return }
        // More than half of the faults are in the first 200 bytes, where the client makes most decisions.
        let place = below(below(2) == 0 ? bytes.count : min(bytes.count, 200))
        let index = bytes.startIndex + place
        switch below(5) {
        case 0: bytes[index] ^= 1 << UInt8(below(8))
        case 1: bytes = bytes.prefix(place)
        case 2: bytes[index] = UInt8(one(of: [0, 9, 10, 11, 13, 27, 127, 255]))
        case 3: bytes.insert(UInt8(below(256)), at: index)
        default: bytes.removeSubrange(index..<min(index + 1 + below(30), bytes.endIndex))
        }
    }
}

#if canImport(CLibcurl)
    extension Reply {
        /// A 200 with these lines in its header, followed by the end of the connection unless stated otherwise.
        static func ok(_ lines: String, body: String, closes: Bool = true) -> Reply {
            .raw("HTTP/1.1 200 OK\r\n\(lines)\r\n\r\n\(body)", closes: closes)
        }

        static func chunked(raw body: String, closes: Bool = true) -> Reply {
            .ok("Transfer-Encoding: chunked", body: body, closes: closes)
        }
    }

    extension TestServer {
        /// A server that sends one reply to every request.
        convenience init(always reply: Reply, at moment: HandlerMoment = .body) throws {
            try self.init()
            respond(at: moment) { _ in reply }
        }

        func get(_ target: String = "/") -> Request<Data> { .get(url(target)) }
    }

    extension CurlTransport {
        private static let count = Locked(0)

        /// Creates a transport with its own connections.
        ///
        /// Transports with equal options share connections, so each call uses a slightly longer connect timeout.
        static func alone(_ change: (inout ConnectionOptions) -> Void = { _ in }) throws -> CurlTransport {
            var options = ConnectionOptions()
            change(&options)
            options.connectTimeout += .nanoseconds(count.countUp())
            return try CurlTransport(options)
        }
    }

    extension Sending {
        init(
            _ request: Request<Output>, _ transport: CurlTransport = .shared,
            prepare: (RequestOperation<Output>) -> Void = { _ in }
        ) {
            self.init(request, over: transport, prepare: prepare)
        }
    }

    /// Sends a GET to a server that always sends the same response.
    enum Fault {
        static func response(
            to reply: Reply, over transport: CurlTransport = .shared,
            sourceLocation: SourceLocation = #_sourceLocation,
            _ change: (Request<Data>) -> Request<Data> = { $0 }
        ) async throws -> Response<Data> {
            let server = try TestServer(always: reply)
            return try await Sending(change(server.get()), transport).response(sourceLocation: sourceLocation)
        }

        /// The error of the GET, of one line with the request's name, after the client has closed the connection.
        ///
        /// - Parameter closes: false if the connection is still usable, so its end is not checked.
        static func error<Output>(
            of reply: Reply, over transport: CurlTransport = .shared, closes: Bool = true,
            sourceLocation: SourceLocation = #_sourceLocation,
            _ change: (Request<Data>) -> Request<Output>
        ) async throws -> RequestError {
            let server = try TestServer(always: reply)
            let sending = Sending(change(server.get()), transport)
            let error = try await sending.error(sourceLocation: sourceLocation)
            #expect(error.description.isOneLine, sourceLocation: sourceLocation)
            #expect(error.request == "GET \(server.url())", sourceLocation: sourceLocation)
            if closes { try await server.connectionsClosed() }
            #expect(sending.outcomes.count == 1, sourceLocation: sourceLocation)
            return error
        }

        /// Expects that a GET into memory fails with one of these codes.
        ///
        /// - Parameter status: the status of the head before the fault; nil without a head.
        static func expect(
            _ codes: RequestError.Code..., of reply: Reply, status: Int?, closes: Bool = true,
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let error = try await error(of: reply, closes: closes, sourceLocation: sourceLocation) {
                $0.acceptableStatusCodes(.any)
            }
            #expect(codes.contains(error.code), "\(error)", sourceLocation: sourceLocation)
            #expect(error.response?.statusCode == status, sourceLocation: sourceLocation)
            #expect(error.isRetryable == error.code.facts.contains(.retryable), sourceLocation: sourceLocation)
        }

        /// Expects that the next request receives its own response, without bytes left over from the first response.
        ///
        /// - Parameter method: the method of the first request, whose response is accepted with any status.
        /// - Returns: the first response, and the connection number of each request.
        static func next(
            after reply: Reply, method: HTTPMethod = .get, sourceLocation: SourceLocation = #_sourceLocation,
            between: (TestServer) async throws -> Void = { _ in }
        ) async throws -> (first: Response<Data>, connections: [Int]) {
            let server = try TestServer()
            server.enqueue(reply)
            server.respond { .status(200, body: "right \($0.path)") }
            let transport = try CurlTransport.alone()
            let request = Request<Data>(method: method, url: server.url("/first")).acceptableStatusCodes(.any)
            let first = try await Sending(request, transport).response(sourceLocation: sourceLocation)
            try await between(server)
            for target in ["/second", "/third"] {
                let next = try await Sending(server.get(target), transport).response(sourceLocation: sourceLocation)
                #expect(next.value == Data("right \(target)".utf8), sourceLocation: sourceLocation)
                #expect(next.statusCode == 200, sourceLocation: sourceLocation)
            }
            return (first, server.recordedRequests.map(\.connectionNumber))
        }
    }
#endif
