import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

struct Interceptor: RequestInterceptor {
    var adapting: @Sendable (PreparedRequest, AttemptContext) async throws -> PreparedRequest = { request, _ in request
    }
    var current: @Sendable (PreparedRequest) -> Bool = { _ in true }
    var deciding: @Sendable (AttemptEnd, AttemptContext) async throws -> InterceptorDecision = { _, _ in .proceed }

    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        try await adapting(request, attempt)
    }
    func isCurrent(_ request: PreparedRequest) -> Bool { current(request) }
    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        try await deciding(end, attempt)
    }

    static func adding(_ name: String, _ value: String) -> Interceptor {
        Interceptor(adapting: { request, _ in
            var request = request
            request.headerFields.add(name, value)
            return request
        })
    }
}

/// Suspends callers until the test opens the turnstile.
final class Turnstile: Sendable {
    let arrivals = EventLog<Int>()
    private let opening = EventLog<Void>()

    func pass() async {
        arrivals.record(1)
        await opening.wait()
    }

    func open() { opening.record(()) }
}

@Suite struct RequestInterceptorTests {
    @Test func theManagersComeFirstThenTheRequestsOwn() async throws {
        let server = StubServer()
        let manager = server.manager(configure: {
            $0.interceptors = [Interceptor.adding("X", "1"), Interceptor.adding("X", "2")]
        })
        let response = try await manager.send(Request.stub("a").intercepted(by: Interceptor.adding("X", "3")))
        #expect(server.exchanges.events.first?.request.headerFields.values(of: "X") == ["1", "2", "3"])
        #expect(response.request.headerFields["X"] == "1, 2, 3")
        let direct = RequestOperation(
            Request.stub("a").intercepted(by: Interceptor.adding("X", "1")), transport: server.transport)
        direct.start()
        #expect(try await direct.response().request.headerFields["X"] == "1")
    }

    @Test func eachAttemptIsAdaptedAfreshAndDecidedOn() async throws {
        let server = StubServer { exchange in
            exchange.answer(exchange.request.headerFields["X"] == "try 3" ? 200 : 401, body: Data("ok".utf8))
        }
        let interceptor = Interceptor(
            adapting: { request, attempt in
                var request = request
                #expect(request.headerFields["X"] == nil)
                #expect(attempt.earlierAttempts.count == attempt.number - 1)
                request.headerFields["X"] = "try \(attempt.number)"
                return request
            },
            deciding: { end, _ in
                if end.response?.statusCode == 200 { return .proceed }
                #expect(end.error?.code == .unacceptableStatus)
                return .retry(after: .zero)
            })
        let response = try await server.manager().send(Request.stub("a").intercepted(by: interceptor))
        #expect(response.attempts.map(\.statusCode) == [401, 401, 200])
        #expect(response.attempts.map(\.next) == [.intercepted(after: .zero), .intercepted(after: .zero), .outcome])
        #expect(response.attempts.map(\.number) == [1, 2, 3])
    }

    /// A retry requires that both the original request and the adapted one may be repeated.
    @Test(arguments: [
        (HTTPMethod.get, HTTPMethod.post, false, 1), (.get, .put, false, 3), (.post, .put, false, 1),
        (.get, .post, true, 3), (.post, .post, true, 1),
    ])
    func aRetryNeedsARepeatableAdaptedRequestToo(
        given: HTTPMethod, sent: HTTPMethod, addsKey: Bool, attemptCount: Int
    ) async {
        let server = StubServer { $0.answer(503) }
        let manager = server.manager(configure: {
            $0.retries = RetryPolicy(maxRetries: 2, baseDelay: .zero)
            $0.interceptors = [
                Interceptor(adapting: { request, _ in
                    var request = request
                    request.method = sent
                    if addsKey { request.headerFields["Idempotency-Key"] = "1" }
                    return request
                })
            ]
        })
        let request = Request<Data>(method: given, url: "http://stub/a")
        await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(server.exchanges.events.map(\.request.method) == Array(repeating: sent, count: attemptCount))
    }

    @Test func anInterceptorThatNeverHasEnoughIsStoppedAfterTenRetries() async throws {
        let server = StubServer { $0.answer(401) }
        let interceptor = Interceptor(deciding: { _, _ in .retry(after: .zero) })
        let operation = server.manager().enqueue(Request.stub("a").intercepted(by: interceptor))
        let error = await operation.failure()
        #expect(error?.code == .unacceptableStatus)
        #expect(server.exchanges.count == 11)
        #expect(error?.attempts.count == 11)
    }

    @Test func anErrorOfAnInterceptorEndsTheOperation() async {
        struct Broken: Error {}
        let server = StubServer()
        let manager = server.manager(configure: {
            $0.interceptors = [Interceptor(adapting: { _, _ in throw Broken() })]
        })
        let error = await manager.error(of: Request.stub("a"))
        #expect(error?.code == .interceptorFailed)
        #expect(error?.underlying is Broken)
        await manager.drain()
        // A request that an interceptor makes invalid is not sent.
        let injecting = server.manager(configure: { $0.interceptors = [Interceptor.adding("X", "a\r\nB: c")] })
        #expect(await injecting.error(of: Request.stub("a"))?.code == .invalidRequest)
        #expect(server.exchanges.count == 0)
    }

    @Test(arguments: [true, false])
    func cancellingWhileAnInterceptorIsAtWorkEndsBoth(isAdapting: Bool) async {
        let server = StubServer()
        let cancelled = EventLog<Int>()
        let began = EventLog<Int>()
        let wait: @Sendable () async -> Void = {
            began.record(1)
            let gate = Turnstile()
            await withTaskCancellationHandler {
                await gate.pass()
            } onCancel: {
                cancelled.record(1)
                gate.open()
            }
        }
        let interceptor = Interceptor(
            adapting: { request, _ in
                if isAdapting { await wait() }
                return request
            },
            deciding: { _, _ in
                if !isAdapting { await wait() }
                return .proceed
            })
        let manager = server.manager(configure: { $0.interceptors = [interceptor] })
        let operation = manager.enqueue(Request.stub("a"))
        await began.wait()
        operation.cancel()
        await cancelled.wait()
        await manager.drain()
        #expect(operation.error?.code == .cancelled)
        #expect(server.exchanges.count == (isAdapting ? 0 : 1))
    }

    /// An interceptor may send requests through the same manager, even if the manager has only one slot.
    @Test func interceptorsAtWorkHoldNoSlot() async throws {
        let server = StubServer()
        let box = Locked<RequestManager?>(nil)
        let gate = Turnstile()
        let interceptor = Interceptor(adapting: { request, _ in
            await gate.pass()
            try await box.withLock { $0 }?.send(Request.stub("token").withoutInterceptors())
            return request
        })
        let manager = server.manager(1, configure: { $0.interceptors = [interceptor] })
        box.withLock { $0 = manager }
        let batch = manager.batch((0..<50).map { Request.stub("a\($0)") })
        async let results = batch.results
        await gate.arrivals.wait(count: 50)
        gate.open()
        #expect(await results.count { (try? $0.get()) != nil } == 50)
        #expect(server.paths.count { $0 == "/token" } == 50)
        box.withLock { $0 = nil }
    }

    @Test func anOutdatedAdaptationIsRepeatedBeforeSending() async throws {
        let server = StubServer.held()
        let (version, gate) = (Locked(1), Turnstile())
        let interceptor = Interceptor(
            adapting: { request, _ in
                var request = request
                request.headerFields["V"] = "\(version.withLock { $0 })"
                await gate.pass()
                return request
            },
            current: { $0.headerFields["V"] == "\(version.withLock { $0 })" })
        let manager = server.manager(1)
        let adapted = manager.enqueue(Request.stub("a").intercepted(by: interceptor))
        await gate.arrivals.wait()
        // The operation has no slot while its interceptor works. `other` has the slot when the adapted request is
        // ready.
        let other = manager.enqueue(Request.stub("b"))
        let exchange = await server.exchanges.wait()[0]
        gate.open()
        await look { manager.why(adapted).contains("slot:") }
        version.withLock { $0 = 2 }
        exchange.answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        #expect(try await adapted.response().request.headerFields["V"] == "2")
        _ = try await other.response()
        #expect(gate.arrivals.count == 2)
    }

    /// `isCurrent` is user code, which may block.
    @Test func resumingRunsNoInterceptorOnTheCallersThread() async throws {
        let (gate, threads) = (Turnstile(), EventLog<pthread_t>())
        let interceptor = Interceptor(
            adapting: { request, _ in
                await gate.pass()
                return request
            },
            current: { _ in
                threads.record(pthread_self())
                return true
            })
        let server = StubServer(pausesInPlace: false)
        let operation = server.manager().enqueue(Request.stub("a").intercepted(by: interceptor))
        await gate.arrivals.wait()
        operation.suspend()
        gate.open()
        await look { operation.withLock { $0.phase == .waiting(.owner) } }
        let (caller, isDone) = (EventLog<pthread_t>(), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            operation.resume()
            caller.record(pthread_self())
            isDone.wait()
        }
        _ = try await operation.response()
        let resuming = await caller.wait()
        #expect(threads.events.last.map { $0 != resuming[0] } == true)
        isDone.signal()
    }

    @Test func anAcceptable401IsPassedToInterceptorsAndDeliveredWithItsBody() async throws {
        let server = StubServer { $0.answer(401, body: Data("no".utf8)) }
        let onceMore = Interceptor(deciding: { end, attempt in
            end.response?.statusCode == 401 && attempt.number == 1 ? .retry(after: .zero) : .stop
        })
        let response = try await server.manager().send(
            Request.stub("a").acceptableStatusCodes(.any).intercepted(by: onceMore))
        #expect(response.attempts.map(\.statusCode) == [401, 401])
        #expect(response.value == Data("no".utf8))
    }
}

extension ConformingTransport {
    func manager(
        _ limit: Int = 16, interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil,
        configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: limit, maxConcurrentPerHost: limit, transport: .custom(transport))
        (configuration.interceptors, configuration.cookies) = (interceptors, cookies)
        configure(&configuration)
        return RequestManager(configuration: configuration)
    }
}

extension RequestManager {
    func results(of requests: [Request<Data>]) async -> [RequestOperation<Data>.Result] {
        await batch(requests).results
    }

    /// Waits until each of these operations waits for its interceptors, before or after an attempt.
    ///
    /// An operation that waits for its interceptors has no slot.
    func allAreIntercepted(
        _ operations: [AnyRequestOperation], sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let isIntercepted = { (operation: AnyRequestOperation) in
            let why = self.why(operation)
            return why.hasSuffix("waits for an interceptor") || why.hasPrefix("is deciding what follows")
        }
        await look { operations.allSatisfy(isIntercepted) }
        let others = operations.filter { !isIntercepted($0) }.prefix(3).map(why)
        #expect(others.isEmpty, sourceLocation: sourceLocation)
    }
}

extension TestServer {
    /// The values of a field, request by request, in the order of arrival; nil where it was missing.
    func received(_ name: String) -> [String?] { recordedRequests.map { $0.value(of: name) } }

    var paths: [String] { recordedRequests.map(\.path) }
}

extension Reply {
    init(_ answer: MadeAnswer, body: String = "") {
        self = .status(answer.status, headerFields: answer.fields.map { ($0.name, $0.value) }, body: body)
    }

    /// A 200 that sets cookies, each in a separate field.
    static func cookies(_ values: String..., body: String = "") -> Reply {
        .status(200, headerFields: values.map { ("Set-Cookie", $0) }, body: body)
    }
}
