import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct ServerSentEventsTests {
    private static let fields: HeaderFields = ["Content-Type": "text/event-stream; charset=utf-8"]

    /// The response of one connection, and whether the connection is lost after it.
    struct Script: Sendable {
        var text = ""
        var statusCode = 200
        var isLost = false
        var retryAfter: String?

        func answer(_ exchange: StubExchange) {
            var fields = ServerSentEventsTests.fields
            fields["Retry-After"] = retryAfter
            exchange.respond(ResponseHead(statusCode: statusCode, headerFields: fields))
            if !text.isEmpty { exchange.send(Data(text.utf8)) }
            exchange.finish(isLost ? RequestError(.connectionLost, "cut") : nil)
        }
    }

    /// A server that responds with these scripts in order, and repeats the last one.
    private static func server(_ scripts: [Script]) -> StubServer {
        StubServer.numbered { exchange, index in scripts[min(index, scripts.count - 1)].answer(exchange) }
    }

    private func manager(_ server: StubServer, _ clock: VirtualClock) -> RequestManager {
        server.manager(clock: clock) { $0.jitter = { 0.5 } }
    }

    private func read(_ events: ServerSentEvents) -> Task<([String], RequestError.Code?), Never> {
        Task {
            var data: [String] = []
            do throws(RequestError) {
                for try await event in events { data.append(event.data) }
                return (data, nil)
            } catch { return (data, error.code) }
        }
    }

    private func waits(_ clock: VirtualClock, _ count: Int) async {
        for count in 1...count {
            await clock.armed.wait(count: count)
            clock.advanceToNext()
        }
    }

    // MARK: One connection

    @Test func eventsComeInOrderAndEndWithTheBody() async throws {
        let server = Self.server([Script(text: "data: 1\n\nevent: e\nid: 7\ndata: 2\n\ndata: half")])
        var iterator = server.manager().events(of: .stub("a"), reconnecting: .never).makeAsyncIterator()
        #expect(try await iterator.next() == ServerSentEvent(data: "1"))
        #expect(try await iterator.next() == ServerSentEvent(type: "e", data: "2", lastEventID: "7"))
        for _ in 0..<2 { #expect(try await iterator.next() == nil) }
        let request = try #require(server.exchanges.events.first?.request)
        #expect(request.headerFields["Accept"] == "text/event-stream")
        #expect(request.headerFields["Cache-Control"] == "no-store")
        #expect(!request.headerFields.contains("Last-Event-ID"))
        #expect(server.exchanges.count == 1)
    }

    @Test func theReconnectionTimeIsReportedAsItArrives() async throws {
        let server = StubServer.held()
        let told = EventLog<Duration>()
        let events = server.manager().events(of: .stub("a"), reconnecting: .never).onReconnectionTime {
            told.record($0)
        }
        let reader = Task { () -> [Duration?] in
            var iterator = events.makeAsyncIterator()
            var times = [iterator.reconnectionTime]
            while try await iterator.next() != nil { times.append(iterator.reconnectionTime) }
            return times
        }
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200, headerFields: Self.fields))
        // A `retry` field alone creates no event.
        exchange.send(Data("retry: 250\n\n".utf8))
        #expect(await told.wait() == [.milliseconds(250)])
        exchange.send(Data("retry: 250\ndata: 1\n\nretry: 9\ndata: 2\n\n".utf8))
        #expect(await told.wait(count: 2) == [.milliseconds(250), .milliseconds(9)])
        exchange.finish()
        #expect(try await reader.value == [nil, .milliseconds(250), .milliseconds(9)])
    }

    @Test func nothingIsSentBeforeItIsRead() async {
        let (server, manager) = Self.server([Script()]).withManager()
        _ = manager.events(of: .stub("a"), reconnecting: .never).makeAsyncIterator()
        #expect(server.exchanges.count == 0)
        #expect(manager.operations.isEmpty)
    }

    /// Only a response with status 200 is an event stream, and 204 is the end: the HTML standard, section 9.2.3.
    @Test(
        arguments: [
            (404, "text/event-stream", .unacceptableStatus), (201, "text/event-stream", .unacceptableStatus),
            (205, "text/event-stream", .unacceptableStatus), (206, "text/event-stream", .unacceptableStatus),
            (299, "text/event-stream", .unacceptableStatus), (204, nil, nil),
            (200, "text/html", .unacceptableContentType), (200, nil, .unacceptableContentType),
        ] as [(Int, String?, RequestError.Code?)])
    func responseThatAnnouncesNoEvents(status: Int, type: String?, code: RequestError.Code?) async throws {
        let server = StubServer { exchange in
            let fields: HeaderFields = type.map { ["Content-Type": $0] } ?? [:]
            exchange.answer(status, headerFields: fields, body: Data((status == 204 ? "" : "data: 1\n\n").utf8))
        }
        let result = await read(server.manager().events(of: .stub("a"), reconnecting: .standard)).value
        #expect(result == ([], code))
        #expect(server.exchanges.count == 1)
    }

    @Test func eventOverTheLimitEndsTheRequest() async throws {
        let server = StubServer.held()
        let reader = read(server.manager().events(of: .stub("a"), reconnecting: .standard, maxEventBytes: 10))
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200, headerFields: Self.fields))
        exchange.send(Data("data: 1\n\ndata: 1234\ndata: 1234\ndata: 1234\n\n".utf8))
        #expect(await reader.value == (["1"], .bodyTooLarge))
        #expect(server.exchanges.count == 1)
    }

    // MARK: Connecting again

    struct Course: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let scripts: [Script]
        /// The times between the connections, in milliseconds, with half of the jitter.
        let waits: [Int]
        let data: [String]
        var code: RequestError.Code?
        var policy: RetryPolicy?
    }

    private static let courses = [
        Course(
            testDescription: "the time of the server counts",
            scripts: [
                Script(text: "retry: 20000\ndata: a\n\n"), Script(text: "data: b\n\n"),
                Script(text: "retry: 86400000\ndata: c\n\n"), Script(statusCode: 204),
            ], waits: [20_250, 20_250, 300_250], data: ["a", "b", "c"]),
        Course(
            testDescription: "of it and Retry-After the longer one applies, and the policy limits both",
            scripts: [
                Script(text: "data: a\n\n"), Script(statusCode: 503, retryAfter: "40"),
                Script(statusCode: 503, retryAfter: "86400"), Script(statusCode: 503, retryAfter: "1"),
            ], waits: [3_250, 40_500, 301_000], data: ["a"], code: .unacceptableStatus),
        Course(
            testDescription: "consecutive connections without events use up the retries",
            scripts: [
                Script(text: "data: a\n\n", isLost: true), Script(statusCode: 503), Script(text: ": hello\n\n"),
                Script(text: "data: b\n\n"), Script(isLost: true),
            ], waits: [3_250, 3_500, 4_000, 3_250, 3_500, 4_000], data: ["a", "b"], code: .connectionLost),
        Course(
            testDescription: "a stream that keeps ending empty ends", scripts: [Script()], waits: [3_250, 3_500],
            data: [], policy: RetryPolicy(maxRetries: 2)),
    ]

    @Test(arguments: courses) func connectionsAndWaits(course: Course) async throws {
        let (server, clock) = (Self.server(course.scripts), VirtualClock())
        let policy = course.policy ?? .standard
        let reader = read(manager(server, clock).events(of: .stub("a"), reconnecting: policy))
        await waits(clock, course.waits.count)
        #expect(await reader.value == (course.data, course.code))
        #expect(clock.elapsed == .milliseconds(course.waits.reduce(0, +)))
        #expect(server.exchanges.count == course.waits.count + 1)
    }

    /// Events reconnect by default, as in a browser.
    @Test func connectionThatEndsIsFollowedByAnotherWithTheLastID() async throws {
        let clock = VirtualClock()
        let server = Self.server([
            Script(text: "id: 1\ndata: a\n\nid: 2\nevent: x\ndata: half"),
            Script(text: "\u{FEFF}data: b\n\n", isLost: true),
            Script(text: "id\ndata: c\n\n"), Script(statusCode: 204),
        ])
        let reader = read(manager(server, clock).events(of: .stub("a")))
        await waits(clock, 3)
        #expect(await reader.value == (["a", "b", "c"], nil))
        let ids = server.exchanges.events.map { $0.request.headerFields["Last-Event-ID"] }
        #expect(ids == [nil, "1", "1", nil])
    }

    /// While the stream waits to reconnect, there is no operation that could be cancelled.
    @Test(arguments: ["all", "tag", "other tag", "task"]) func cancellingEndsTheWait(kind: String) async throws {
        let clock = VirtualClock()
        let server = Self.server([Script(text: "data: a\n\n"), Script(statusCode: 204)])
        let manager = manager(server, clock)
        let reader = read(manager.events(of: .stub("a").tagged("tag"), reconnecting: .standard))
        await clock.armed.wait()
        switch kind {
        case "all": manager.cancelAll()
        case "task": reader.cancel()
        default: manager.cancelAll(tagged: kind)
        }
        let isMeant = kind != "other tag"
        if !isMeant { clock.advanceToNext() }
        #expect(await reader.value == (["a"], isMeant ? .cancelled : nil))
        #expect(server.exchanges.count == (isMeant ? 1 : 2))
    }

    @Test func aPostIsNotRepeatedToReconnect() async throws {
        let server = Self.server([Script(text: "data: a\n\n")])
        let request = Request<Data>.post("http://stub/a").body(Data())
        #expect(await read(server.manager().events(of: request, reconnecting: .standard)).value == (["a"], nil))
        #expect(server.exchanges.count == 1)
    }

    /// Events that have arrived are not delivered to a cancelled task.
    @Test func cancellingTheTaskStopsEventsThatHaveArrived() async throws {
        let server = Self.server([Script(text: "data: a\n\ndata: b\n\n")])
        let events = server.manager().events(of: .stub("a"), reconnecting: .never)
        let read = EventLog<String>()
        let reader = Task {
            do throws(RequestError) {
                for try await event in events {
                    read.record(event.data)
                    withUnsafeCurrentTask { $0?.cancel() }
                }
                return RequestError.Code?.none
            } catch { return error.code }
        }
        #expect(await reader.value == .cancelled)
        #expect(read.events == ["a"])
    }

    @Test func idOfTheCallersIsSentUntilTheServerGivesOne() async throws {
        let clock = VirtualClock()
        let server = Self.server([
            Script(text: "data: a\n\n"), Script(text: "id: 9\ndata: b\n\n"), Script(statusCode: 204),
        ])
        let request = Request.stub("a").header("Last-Event-ID", "5").header("Accept", "*/*")
        let reader = read(manager(server, clock).events(of: request, reconnecting: .standard))
        await waits(clock, 2)
        _ = await reader.value
        let fields = server.exchanges.events.map(\.request.headerFields)
        #expect(fields.map { $0["Last-Event-ID"] } == ["5", "5", "9"])
        #expect(fields.map { $0["Accept"] } == ["*/*", "*/*", "*/*"])
    }

    // MARK: Over the wire

    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

    @Test(arguments: ConformingTransport.all)
    func eventComesBeforeTheServerGoesOn(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(
            Reply(steps: [
                .write(Data((Self.head + "data: 1\r\n\r").utf8)), .flush, .wait(gate),
                .write(Data("\ndata: 2\n\n".utf8)),
                .close,
            ]))
        var iterator = subject.manager().events(of: .get(server.url()), reconnecting: .never).makeAsyncIterator()
        #expect(try await iterator.next()?.data == "1")
        gate.open()
        #expect(try await iterator.next()?.data == "2")
        #expect(try await iterator.next() == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func streamThatIsCutIsFollowedByAnother(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = "retry: 1\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n"
        let fields = [("Content-Type", "text/event-stream")]
        server.enqueue([
            Reply.status(200, headerFields: fields, body: body).performing(.close, at: .responseBody(afterBytes: 30)),
            .status(200, headerFields: fields, body: "id: 2\ndata: b\n\n"), .status(204),
        ])
        var policy = RetryPolicy.standard
        policy.baseDelay = .milliseconds(1)
        let result = await read(subject.manager().events(of: .get(server.url()), reconnecting: policy)).value
        #expect(result == (["a", "b"], nil))
        #expect(server.recordedRequests.map { $0.value(of: "Last-Event-ID") } == [nil, "1", "2"])
    }
}

@Suite struct EventParserTests {
    private static func events(_ pieces: [Data], maxBytes: Int = 1 << 20) throws -> [ServerSentEvent] {
        var parser = EventParser(maxBytes: maxBytes)
        var events: [ServerSentEvent] = []
        for piece in pieces {
            parser.append(piece)
            while let event = try parser.next() { events.append(event) }
        }
        return events
    }

    /// The examples of the HTML standard for event streams, and further cases of the same rules.
    @Test(
        arguments: [
            ("data: YHOO\ndata: +2\ndata: 10\n\n", [.init(data: "YHOO\n+2\n10")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
                [.init(data: "first event", lastEventID: "1"), .init(data: "second event")]
            ),
            ("data\n\ndata\ndata\n\ndata:", [.init(data: ""), .init(data: "\n")]),
            ("data:test\n\ndata: test\n\n", [.init(data: "test"), .init(data: "test")]),
            ("event: add\ndata: 1\n\ndata: 2\n\n", [.init(type: "add", data: "1"), .init(data: "2")]),
            ("event: a\nevent: b\ndata\n\n", [.init(type: "b", data: "")]),
            ("event: lost\n\ndata: 1\n\n", [.init(data: "1")]),
            ("id: 1\n\ndata: a\n\n", [.init(data: "a", lastEventID: "1")]),
            (
                "id: 1\ndata: a\n\nid: b\u{0}\ndata: b\n\n",
                [
                    .init(data: "a", lastEventID: "1"), .init(data: "b", lastEventID: "1"),
                ]
            ),
            (
                "retry: 10\ndata\n\nretry: 1s\nretry: -1\nretry: 99999999999999999999\nretry:\ndata\n\n",
                [
                    .init(data: "", reconnectionTime: .milliseconds(10)),
                    .init(data: "", reconnectionTime: .milliseconds(10)),
                ]
            ),
            ("data: a\r\ndata: b\rdata: c\n\r\n", [.init(data: "a\nb\nc")]),
            ("data: a\r\rdata: b\r\n\r\n", [.init(data: "a"), .init(data: "b")]),
            ("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n", [.init(data: "a")]),
            ("Data: a\n data: b\ndata : c\ndatax: d\n\n", []),
            (":\n\n: keep alive\n\n", []), ("data: a\n", []), ("data: a", []),
            ("data: \u{301}a:b\n\n", [.init(data: "\u{301}a:b")]), ("data: a\u{0}b\n\n", [.init(data: "a\u{0}b")]),
        ] as [(String, [ServerSentEvent])])
    func streamMeansTheseEvents(text: String, events: [ServerSentEvent]) throws {
        #expect(try Self.events([Data(text.utf8)]) == events)
        #expect(try Self.events(text.utf8.map { Data([$0]) }) == events)
    }

    // MARK: Random streams, most of them almost valid

    private static let tokens: [[UInt8]] =
        [
            "data", "data:", "data: ", "data:x", "data:  y\n", "event:", "event: e", "id", "id:", "id: 7",
            "id: a\u{0}b",
            "retry:", "retry: 10", "retry: 1x", "retry: -1", ":", ": comment", "Data: z", "dat", " ", "é", "\u{FEFF}",
            "\u{0}", "a", "\u{301}", "\n", "\n", "\n\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", "\n\r",
        ].map { Array($0.utf8) } + [[0xFF], [0xE2, 0x82]]

    private static func random(using generator: inout SeededGenerator) -> [UInt8] {
        let mark: [UInt8] = Int.random(in: 0..<8, using: &generator) == 0 ? [0xEF, 0xBB, 0xBF] : []
        return (0..<Int.random(in: 0...24, using: &generator)).reduce(into: mark) { text, _ in
            text += tokens.randomElement(using: &generator) ?? []
        }
    }

    private static func cut(_ bytes: [UInt8], using generator: inout SeededGenerator) -> [Data] {
        var rest = bytes[...]
        var pieces: [Data] = []
        let longest = Int.random(in: 1...12, using: &generator)
        while !rest.isEmpty {
            let count = Int.random(in: 0...longest, using: &generator)
            // The pieces are slices whose first index is not 0.
            pieces.append(Data([0] + rest.prefix(count)).dropFirst())
            rest = rest.dropFirst(count)
        }
        return pieces
    }

    @Test func eventsAreTheSameHoweverTheStreamIsCut() async {
        let (wrong, count) = await offPool {
            var generator = SeededGenerator(seed: 1)
            var count = 0
            let wrong = (0..<10_000).compactMap { _ -> [UInt8]? in
                let bytes = Self.random(using: &generator)
                let events = try? Self.events(Self.cut(bytes, using: &generator))
                count += events?.count ?? 0
                return events == (try? Self.events([Data(bytes)])) ? nil : bytes
            }
            return (wrong, count)
        }
        #expect(wrong == [])
        #expect(count > 1_000)
    }

    @Test func eventOverTheLimitIsAnError() throws {
        let exact = "data: 1234\ndata: 12345\n\n"
        #expect(try Self.events([Data(exact.utf8)], maxBytes: 11) == [.init(data: "1234\n12345")])
        for text in [
            "data: 123456\n", "data: 1\ndata: 12345\ndata: 12345\n", "data: 1234567", ": 12345678901", "id:1234567890",
        ] {
            #expect(throws: RequestError.self) { try Self.events([Data(text.utf8)], maxBytes: 11) }
        }
        // Empty lines of data count towards the limit; comments and other events do not.
        #expect(throws: RequestError.self) {
            try Self.events([Data(String(repeating: "data\n", count: 13).utf8)], maxBytes: 11)
        }
        let many = String(repeating: ": 1234\ndata: 12345\n\n", count: 100)
        #expect(try Self.events([Data(many.utf8)], maxBytes: 11).count == 100)
    }
}
