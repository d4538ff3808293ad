// Which request gets which answer of a stub.
import Foundation

/// Which requests a route is for.
struct StubPattern: Sendable, CustomStringConvertible {
    let method: HTTPMethod?
    let host: String?
    let path: String

    func matches(_ request: PreparedRequest) -> Bool {
        if let method, method != request.method { return false }
        if let host, request.url.host()?.lowercased() != host.lowercased() { return false }
        let path = request.url.path(percentEncoded: true)
        return Self.matches(self.path.split(separator: "/")[...], path.split(separator: "/")[...])
    }

    /// One component after the other; `*` is any one, and `**` at the end whatever follows.
    private static func matches(_ pattern: ArraySlice<Substring>, _ path: ArraySlice<Substring>) -> Bool {
        if pattern.last == "**" {
            return path.count >= pattern.count - 1 && matches(pattern.dropLast(), path.prefix(pattern.count - 1))
        }
        return pattern.count == path.count && zip(pattern, path).allSatisfy { $0 == "*" || $0 == $1 }
    }

    var description: String {
        "\(method?.rawValue ?? "any method") \(host.map { "//\($0)" } ?? "")\(path.hasPrefix("/") ? "" : "/")\(path)"
    }
}

/// The routes of a stub, and what it was asked.
final class StubRoutes: Sendable {
    private struct Route: Sendable {
        let pattern: StubPattern
        let makeReply: @Sendable (PreparedRequest) -> StubReply
    }

    private struct State {
        var routes: [Route] = []
        var calls: [PreparedRequest] = []
    }

    private let clock: any RequestClock
    private let queue = DispatchQueue(label: "convoy.stub", target: .global())
    private let state = Locked(State())

    init(clock: any RequestClock) { self.clock = clock }

    var calls: [PreparedRequest] { state.withLock { $0.calls } }

    func add(_ pattern: StubPattern, _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply) {
        state.withLock { $0.routes.append(Route(pattern: pattern, makeReply: makeReply)) }
    }

    func answer(_ exchange: StubExchange) {
        let request = exchange.request
        let routes = state.withLock { state in
            state.calls.append(request)
            return state.routes
        }
        guard let route = routes.last(where: { $0.pattern.matches(request) }) else {
            let known = routes.isEmpty ? "it has none" : routes.map(\.pattern.description).joined(separator: ", ")
            return exchange.finish(
                RequestError(.transportFailed, "no route of the stub matches \(request): \(known)"))
        }
        let reply = route.makeReply(request)
        guard reply.delay > .zero else { return reply.tell(exchange) }
        // Thirty years are for ever: a sum that overflows would trap.
        let isSystemClock = clock === SystemClock.shared
        _ = clock.wake(at: clock.now + min(reply.delay, .seconds(1_000_000_000))) {
            // What a client does may take its time, and every timer of the process waits for that queue. On a clock that a
            // test moves it happens before the next timer, so that the order of both is that of their moments.
            guard isSystemClock else { return reply.tell(exchange) }
            self.queue.async { reply.tell(exchange) }
        }
    }
}

extension StubTransport {
    /// Makes a transport that answers by ``route(_:host:_:replies:)-(_,_,_,StubReply...)``, and keeps ``calls``.
    ///
    /// - Parameters:
    ///   - clock: what delays are measured by: give it the manager's, a virtual one for example.
    ///   - pausesInPlace: as for ``init(pausesInPlace:handler:)``.
    public convenience init(clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true) {
        let routes = StubRoutes(clock: clock)
        self.init(pausesInPlace: pausesInPlace, routes: routes) { routes.answer($0) }
    }

    /// Answers requests of one method with replies, one after the other; the last one again and again.
    ///
    /// The route that was added last and matches answers. A request that no route matches ends with `.transportFailed` and
    /// names the routes there are. Without effect for a transport with a handler of its own.
    ///
    /// ```swift
    /// let stub = StubTransport()
    /// stub.route(
    ///     .post, host: "example.com", "/login",
    ///     replies: .status(503), .json(#"{"token": "t"}"#))
    /// stub.route(.get, "/users/*", replies: .json("[]"))
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(stub)))
    /// ```
    ///
    /// - Parameters:
    ///   - method: compared as it is.
    ///   - host: its name, without the port, compared without case; nil, the default, for every one.
    ///   - path: compared by its components as they are sent, percent escapes included and without the query. `*` stands for
    ///     one component, `**` at the end for any number of them, none included.
    ///   - replies: without any, ``StubReply/never``.
    /// - Thread: any.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Answers requests of one method with the replies of an array, as
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Answers requests of every method with replies, as
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Answers requests of every method with the replies of an array, as
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Answers requests of one method with what a function makes of each, as
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - method: compared as it is.
    ///   - host: its name, without the port, compared without case; nil, the default, for every one.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: called on the thread that begins the attempt; it must not wait.
    public func route(
        _ method: HTTPMethod, host: String? = nil, _ path: String,
        _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply
    ) {
        routes?.add(StubPattern(method: method, host: host, path: path), makeReply)
    }

    /// Answers requests of every method with what a function makes of each, as
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - host: its name, without the port, compared without case; nil, the default, for every one.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: called on the thread that begins the attempt; it must not wait.
    public func route(
        host: String? = nil, _ path: String, _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply
    ) {
        routes?.add(StubPattern(method: nil, host: host, path: path), makeReply)
    }

    private static func sequence(_ replies: [StubReply]) -> @Sendable (PreparedRequest) -> StubReply {
        let next = Locked(0)
        return { _ in
            let index = next.withLock { next in
                defer { next = min(next + 1, replies.count) }
                return next
            }
            return replies.isEmpty ? .never : replies[min(index, replies.count - 1)]
        }
    }

    /// What was sent, in order: each attempt, those included that no route matched; empty for a transport with a handler of
    /// its own.
    ///
    /// - Thread: any.
    public var calls: [PreparedRequest] { routes?.calls ?? [] }
}
