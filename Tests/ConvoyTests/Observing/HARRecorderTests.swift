import Convoy
import Foundation
import Testing

@Suite struct HARRecorderTests {
    private let recorder = HARRecorder()
    private let done = EventLog<Void>()

    /// The archive of a recorder, checked to be valid and to have consistent times.
    private func read(_ recorder: HARRecorder, sourceLocation: SourceLocation = #_sourceLocation) throws -> ReadHAR {
        let archive = try ReadHAR(recorder.har())
        #expect(archive.defects == [], sourceLocation: sourceLocation)
        for entry in archive.entries {
            // The numbers have three decimals, so their binary sums are inexact.
            #expect(abs(entry.sumOfTimings - entry.time) < 1e-6, "\(entry)", sourceLocation: sourceLocation)
            #expect(entry.time("ssl") <= max(entry.time("connect"), -1), sourceLocation: sourceLocation)
        }
        #expect(
            archive.entries.map(\.started) == archive.entries.map(\.started).sorted(), sourceLocation: sourceLocation)
        return archive
    }

    @Test func theTimesOfARequestAddUpToItsLife() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(monitors: [recorder, EndMonitor(done: done)], clock: clock) { configuration in
            configuration.retries = .standard
            configuration.jitter = { 0.5 }
        }
        manager.isSuspended = true
        let operation = manager.enqueue(.stub("a"))
        clock.advance(by: .milliseconds(2_000))
        manager.isSuspended = false
        let first = await server.exchanges.wait()[0]
        clock.advance(by: .milliseconds(100))
        first.answer(503, body: Data(count: 7))
        await clock.armed.wait()
        // Another request occupies the slot when the back-off ends.
        clock.advanceToNext()
        let second = await server.exchanges.wait(count: 2)[1]
        clock.advance(by: .microseconds(30_004))
        second.respond(ResponseHead(statusCode: 200))
        clock.advance(by: .milliseconds(20))
        second.send(Data(count: 11))
        second.finish()
        _ = try await operation.response()
        await done.wait()
        let entries = try read(recorder).entries
        #expect(entries.map(\.status) == [503, 200])
        #expect(entries.map(\.time) == [2_100, 300.004])
        #expect(entries.map { $0.time("blocked") } == [2_000, 250])
        #expect(entries.map { $0.time("_queued") } == [2_000, 0])
        #expect(entries.map { $0.time("wait") } == [100, 30.004])
        #expect(entries.map { $0.time("receive") } == [0, 20])
        for name in ["dns", "connect", "ssl"] { #expect(entries.map { $0.time(name) } == [-1, -1]) }
        #expect(entries.map(\.started) == ["2023-11-14T22:13:20.000Z", "2023-11-14T22:13:22.100Z"])
        #expect(entries.map { $0.member("response", "content", "size") as? Int } == [7, 11])
        #expect(entries.map { $0.member("comment") as? String } == ["a: attempt 1 of 2", "a: attempt 2 of 2"])
    }

    @Test func redirectsRetriesAndFailuresOnTheWire() async throws {
        let server = try TestServer()
        var configuration = RequestManager.Configuration(
            baseURL: server.url("/"), monitors: [recorder, EndMonitor(done: done)])
        configuration.retries = .standard
        configuration.jitter = { 0 }
        #if os(Linux)
            // Other tests may replace the few connections of the shared transport, so this test has its own.
            configuration.transport = .custom(try CurlTransport.alone())
        #endif
        let manager = RequestManager(configuration: configuration)
        let redirect = Reply.status(
            302,
            headerFields: [
                ("Location", "http://me:hunter2@127.0.0.1:\(server.port)/b#x"), ("Content-Type", "text/plain"),
                ("Content-Encoding", "identity"),
            ],
            body: "over there")
        let cookie = "sid=hunter2; Path=/; Secure; HttpOnly; Max-Age=60"
        for reply in [
            .status(503), redirect,
            .status(200, headerFields: [("Set-Cookie", cookie), ("Content-Type", "text/plain")], body: "hello"),
        ] { server.enqueue(reply) }
        _ = try await manager.send(
            Request<String>.get("/a?q=it%27s&empty=&&none#f").bearer("hunter2").header("Cookie", "a=hunter2; b"))
        await done.wait()
        server.enqueue(.status(200).disconnecting(afterBytes: 3))
        _ = try? await manager.send(Request<Data>.post("/c").body(Data("p=hunter2".utf8)).retries(.never))
        await done.wait(count: 2)
        server.enqueue(.status(404, headerFields: [("X-Odd", "\u{1B}\u{202E}\"\\")], body: "no"))
        _ = try? await manager.send(Request<Data>.get("/d").retries(.never))
        await done.wait(count: 3)
        let data = recorder.har()
        #expect(!String(decoding: data, as: UTF8.self).contains("hunter2"))
        let entries = try read(recorder).entries
        #expect(entries.map(\.status) == [503, 302, 200, 0, 404])
        let base = "http://127.0.0.1:\(server.port)"
        #expect(
            entries.map(\.url)
                == ["/a?q=it%27s&empty=&&none", "/a?q=it%27s&empty=&&none", "/b", "/c", "/d"].map { base + $0 })
        #expect(entries[1].member("response", "redirectURL") as? String == "\(base)/b#x")
        #expect(entries[1].member("response", "content", "mimeType") as? String == "text/plain")
        #expect(entries.map { $0.member("response", "bodySize") as? Int } == [0, 10, 5, -1, 2])
        #expect(entries[0].fields("request") == ["Authorization: <redacted>", "Cookie: <redacted>"])
        let query = entries[0].member("request", "queryString") as? [[String: String]]
        #expect(query?.map { "\($0["name"] ?? "?")=\($0["value"] ?? "?")" } == ["q=it's", "empty=", "none="])
        #expect((entries[2].member("response", "cookies") as? [[String: Any]])?.first?["secure"] as? Bool == true)
        #expect(entries[3].member("response", "_error") as? String == "connectionLost")
        #expect(entries[3].member("request", "bodySize") as? Int == 9)
        #expect(entries[3].member("request", "postData", "text") as? String == "")
        #expect(entries[4].member("response", "content", "text") == nil)
        #if os(Linux)
            #expect(entries[2].member("request", "httpVersion") as? String == "HTTP/1.1")
            #expect(entries[4].member("serverIPAddress") as? String == "127.0.0.1")
            #expect((entries[2].member("response", "headersSize") as? Int ?? 0) > 40)
            // The first request opened the connection, and the next ones reused it.
            #expect(entries[0].time("connect") >= 0)
            #expect(entries[1].time("connect") == -1)
        #endif
    }

    @Test func bodiesAreKeptWhenTheyAreAskedFor() async throws {
        let recorder = HARRecorder(bodyLimitBytes: 5, revealingSecrets: true)
        let server = StubServer { exchange in
            let path = exchange.request.url.path
            exchange.answer(path == "/no" ? 500 : 200, body: path == "/raw" ? Data([0xFF, 0]) : Data(path.utf8))
        }
        let manager = server.manager(monitors: [recorder, EndMonitor(done: done)])
        for (index, path) in ["ok", "no", "raw", "long1"].enumerated() {
            manager.enqueue(Request<Data>.post("http://stub/\(path)").body(Data(path.utf8)).bearer("b"))
            await done.wait(count: index + 1)
        }
        manager.enqueue(Request<String>.get("http://stub/text"))
        await done.wait(count: 5)
        let entries = try read(recorder).entries
        let texts = entries.map { $0.member("response", "content", "text") as? String }
        #expect(texts == ["/ok", "/no", "/wA=", nil, "/text"])
        #expect(entries[2].member("response", "content", "encoding") as? String == "base64")
        #expect(
            entries.prefix(4).map { $0.member("request", "postData", "text") as? String } == [
                "ok", "no", "raw", "long1",
            ])
        #expect(entries[0].fields("request").contains("Authorization: Bearer b"))
    }

    /// The recorder recognises secrets by their names in URLs, header fields and forms.
    ///
    /// The dependent operation has no name, so its label contains its URL. The recorder must not write that label.
    @Test func secretsOfQueriesFormsAndFieldsAreLeftOut() async throws {
        let secret = "hunter2"
        let server = StubServer { exchange in
            guard exchange.request.url.path == "/a" else {
                // Some token endpoints respond in this form.
                let fields: HeaderFields = ["Content-Type": "application/x-www-form-urlencoded"]
                return exchange.answer(200, headerFields: fields, body: Data("access_token=\(secret)&b=1".utf8))
            }
            exchange.answer(307, headerFields: ["Location": "/b?api_key=\(secret)&page=2", "X-Auth-Token": secret])
        }
        let recorder = HARRecorder(bodyLimitBytes: 1_000, secretWords: HARRecorder.secretWords.union(["shibboleth"]))
        let manager = server.manager(monitors: [recorder])
        let request = Request<Data>.put("http://stub/a?sig=\(secret)&shibboleth=\(secret)&page=1")
            .form(["user": "ada", "client_secret": secret]).header("X-Api-Key", secret)
        let first = manager.operation(request)
        let link = manager.operation(after: first) { _ in Request<Data>.get("http://stub/c?token=\(secret)") }
        manager.enqueue(first, link)
        _ = try await link.response()
        await manager.drain()
        #expect(!String(decoding: recorder.har(), as: UTF8.self).contains(secret))
        let entries = try read(recorder).entries
        let redacted = "%3Credacted%3E"
        // Both operations are queued at the same time, so the order of their entries is not fixed.
        #expect(
            entries.map(\.url).sorted() == [
                "http://stub/a?sig=\(redacted)&shibboleth=\(redacted)&page=1",
                "http://stub/b?api_key=\(redacted)&page=2", "http://stub/c?token=\(redacted)",
            ])
        #expect(entries[0].member("response", "redirectURL") as? String == "/b?api_key=\(redacted)&page=2")
        let query = entries[0].member("request", "queryString") as? [[String: String]]
        #expect(query?.map { $0["value"] } == ["<redacted>", "<redacted>", "1"])
    }

    @Test func theOldestRequestsAreDroppedAndUnsentOnesAreNotRecorded() async throws {
        let recorder = HARRecorder(requestLimit: 3)
        let manager = StubServer().manager(monitors: [recorder, EndMonitor(done: done)])
        for number in 1...8 {
            manager.enqueue(.stub("\(number)"))
            await done.wait(count: number)
        }
        manager.isSuspended = true
        manager.enqueue(.stub("never")).cancel()
        await done.wait(count: 9)
        #expect((recorder.requestCount, recorder.droppedRequestCount) == (3, 5))
        #expect(try read(recorder).entries.map(\.url) == ["http://stub/6", "http://stub/7", "http://stub/8"])
        manager.isSuspended = false
    }

    @Test func aSharedTransferIsRecordedOnce() async throws {
        let server = StubServer.held()
        let manager = server.manager(monitors: [recorder, EndMonitor(done: done)])
        let operations = (0..<3).map { _ in manager.enqueue(Request<Data>.get("http://stub/a").coalesced()) }
        await server.exchanges.wait()[0].answer(302, headerFields: ["Location": "/b"])
        await server.exchanges.wait(count: 2)[1].answer(200, body: Data("x".utf8))
        for operation in operations { _ = try await operation.response() }
        await done.wait(count: 4)
        #expect(try read(recorder).entries.map(\.url) == ["http://stub/a", "http://stub/b"])
    }

    @Test func bytesOfAnEarlierAnswerAreNotCountedAgain() async throws {
        let server = StubServer.held()
        let manager = server.manager(monitors: [recorder, EndMonitor(done: done)]) { configuration in
            configuration.retries = .standard
            configuration.jitter = { 0 }
        }
        let operation = manager.enqueue(.stub("a"))
        await server.exchanges.wait()[0].answer(503, body: Data(count: 7))
        let second = await server.exchanges.wait(count: 2)[1]
        #expect(operation.attempts.map(\.statusCode) == [503])
        second.finish(RequestError(.badResponse, "nonsense"))
        await done.wait()
        let entries = try read(recorder).entries
        #expect(entries.map { $0.member("response", "content", "size") as? Int } == [7, 0])
        #expect(operation.attempts.map(\.transfer.download.completedBytes) == [7, 0])
        #expect(operation.attempts.last?.failure == .badResponse)
    }

    @Test(arguments: [nil, 0o600, 0o640, 0o666]) func aFileIsPrivateOrKeepsItsPermissions(existing: Int?) throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("a.har")
        if let existing {
            try Data("old".utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: existing], ofItemAtPath: file.path)
        }
        try recorder.write(to: file)
        #expect(try Data(contentsOf: file) == recorder.har())
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == existing ?? 0o600)
        #expect(try directory.names() == ["a.har"])
    }

    @Test func aLinkIsFollowedAndAnErrorSaysWhy() throws {
        let directory = try TemporaryDirectory()
        let (file, link) = (directory.file("a.har"), directory.file("link.har"))
        #expect(try ReadHAR(recorder.har()).defects == [])
        try Data("old".utf8).write(to: file)
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        try recorder.write(to: link)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        #expect(try Data(contentsOf: file) == recorder.har())
        let error = #expect(throws: RequestError.self) { try recorder.write(to: directory.file("no/a.har")) }
        #expect(error?.code == .destinationUnwritable)
    }
}

@Suite struct HARTimingsTests {
    /// The timings of an attempt of a millisecond.
    private func timings(hasAnswer: Bool, _ change: (inout TransferMetrics) -> Void) -> HARTimings {
        var metrics = TransferMetrics()
        change(&metrics)
        return HARTimings(
            waited: .microseconds(50), delay: .microseconds(20), total: .microseconds(1_000), firstByte: nil,
            hasAnswer: hasAnswer, metrics: metrics)
    }

    @Test func everyPhaseHasItsPart() {
        let secure = timings(hasAnswer: true) { metrics in
            metrics.nameLookup = .microseconds(100)
            metrics.connect = .microseconds(250)
            metrics.secureConnect = .microseconds(600)
            metrics.firstByte = .microseconds(900)
        }
        #expect([secure.dns, secure.connect, secure.ssl] == [100, 500, 350])
        #expect([secure.blocked, secure.queued, secure.wait, secure.receive] == [50, 30, 300, 100])
        #expect(secure.time == 1_050)
    }

    @Test func aConnectionThatNeverCameAboutTookTheTime() {
        let failed = timings(hasAnswer: false) { $0.nameLookup = .microseconds(100) }
        #expect([failed.dns, failed.connect, failed.wait, failed.receive] == [100, 900, 0, 0])
    }
}
