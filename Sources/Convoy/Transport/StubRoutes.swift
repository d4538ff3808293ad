// The routes of a stub.
import Foundation

/// The requests to which a route applies.
struct StubPattern: Sendable, CustomStringConvertible {
    let method: HTTPMethod?
    let host: String?
    let path: String

    func matches(_ request: PreparedRequest) -> Bool {
        if let method, method != request.method { return false }
        if let host, request.url.host()?.lowercased() != host.lowercased() { return false }
        let parts = self.path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2, request.url.query(percentEncoded: true) != String(parts[1]) { return false }
        let path = request.url.path(percentEncoded: true)
        return Self.matches(parts[0].split(separator: "/")[...], path.split(separator: "/")[...])
    }

    /// Compares the components of two paths.
    ///
    /// `*` matches one component, and `**` at the end matches any number of components.
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

/// The routes of a stub, and the requests it received.
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
        // The delay is limited to a billion seconds, about 31 years, because an overflowing sum would trap.
        let isSystemClock = clock === SystemClock.shared
        _ = clock.wake(at: clock.now + min(reply.delay, .seconds(1_000_000_000))) {
            // With the system's clock, this code runs on the queue of all timers of the process. A client may block, so
            // the stub's own queue delivers the reply. With a virtual clock, the reply is delivered here, before the
            // next timer, so that events keep their order.
            guard isSystemClock else { return reply.tell(exchange) }
            self.queue.async { reply.tell(exchange) }
        }
    }
}

extension StubTransport {
    /// Makes a transport that responds by ``route(_:host:_:replies:)-(_,_,_,StubReply...)`` and records ``calls``.
    ///
    /// - Parameters:
    ///   - clock: the clock of delays. Pass the manager's clock, for example a virtual one.
    ///   - pausesInPlace: whether a resumed task continues where it was suspended.
    public convenience init(clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true) {
        let routes = StubRoutes(clock: clock)
        self.init(pausesInPlace: pausesInPlace, routes: routes) { routes.answer($0) }
    }

    /// Responds to requests of one method with a list of replies.
    ///
    /// The last reply is repeated.
    ///
    /// If several routes match, the stub uses the one that was added last. A request without a matching route fails
    /// with `.transportFailed`, and the message lists the routes. For a transport with a handler the method has no
    /// effect.
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
    ///   - method: the method, case-sensitive.
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: the path as sent, with percent escapes. `*` matches one component, `**` at the end any number of them,
    ///     including none. The query as sent follows after a `?`. A path without a `?` matches any query, and also
    ///     requests without a query.
    ///   - replies: the replies; none means ``StubReply/never``.
    /// - Thread: any.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of one method with an array of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of every method with a list of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of every method with an array of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of one method with a function; see ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - method: the method, case-sensitive.
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: makes the reply. Called on the thread that starts the attempt; it must not block.
    public func route(
        _ method: HTTPMethod, host: String? = nil, _ path: String,
        _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply
    ) {
        routes?.add(StubPattern(method: method, host: host, path: path), makeReply)
    }

    /// Responds to requests of every method with a function; see ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: makes the reply. Called on the thread that starts the attempt; it must not block.
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

    /// The requests of all attempts in order, including those that no route matched.
    ///
    /// The list is empty for a transport with a handler.
    ///
    /// - Thread: any.
    public var calls: [PreparedRequest] { routes?.calls ?? [] }
}
