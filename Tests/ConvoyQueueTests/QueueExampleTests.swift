import Convoy
import ConvoyPostgres
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Runs the code of the documentation.
@Suite struct QueueExampleTests {
    private struct Order: Encodable {
        var number = 17
    }

    @Test func theFirstPage() async throws {
        let server = try TestServer()
        server.enqueue(.status(201))
        let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-queue-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "orders.db")
        let ordersURL = server.url("/orders")
        let order = Order()
        let authenticator = try BearerAuthenticator(origins: [ordersURL]) { _ in "token" }

        var configuration = RequestManager.Configuration()
        configuration.interceptors = [authenticator]
        let manager = RequestManager(configuration: configuration)
        let queue = try DurableQueue(at: file, manager: manager)
        queue.start([
            "order": { job, result in
                result.isSuccess ? .done : .fail(result.failure ?? "refused")
            }
        ])
        let request = try JobRequest(.post(ordersURL, json: order))
        try await queue.add(Job("order", request))

        await queue.drain()
        let sent = try await server.takeRequest()
        #expect(sent.bodyText == #"{"number":17}"# && sent.value(of: "Authorization") == "Bearer token")
        #expect(sent.value(of: "Idempotency-Key")?.isEmpty == false)
        #expect(try await queue.status()[.done] == 1)
        await queue.close()
    }

    /// Stores receipts for the handlers of the examples.
    private actor Ledger {
        private(set) var receipts: [String: Data] = [:]
        func note(_ id: String, receipt: Data) { receipts[id] = receipt }
    }

    @Test func workingWithJobs() async throws {
        let server = try TestServer()
        server.route("/payments") { _ in .body(Data("paid".utf8)) }
        server.route("/parcels") { _ in .status(201) }
        server.route("/photo") { _ in .status(204) }
        server.route("/film") { _ in .body(Data("a film".utf8)) }
        let place = try StorePlace()
        let (paymentURL, parcelURL) = (server.url("/payments"), server.url("/parcels"))
        let (photoURL, filmURL) = (server.url("/photo"), server.url("/film"))
        let photoFile = place.directory.appending(path: "photo.jpg")
        let filmFile = place.directory.appending(path: "film.mp4")
        try Data("a photo".utf8).write(to: photoFile)
        let store = try SQLiteStore(at: place.file)
        let queue = DurableQueue(store: store, manager: RequestManager())
        let ledger = Ledger()

        let order = "order-4711"
        var payment = Job("payment", try JobRequest(.post(paymentURL)), id: order)
        payment.expires = Date(timeIntervalSinceNow: 86_400)
        payment.uniqueness = Job.Uniqueness(key: order, policy: .keep)

        var parcel = Job("parcel", try JobRequest(.post(parcelURL)))
        parcel.dependencies = [order]
        parcel.group = "warehouse 2"
        parcel.tags = ["express"]

        let additions = try await queue.add(contentsOf: [payment, parcel])
        let new: [JobAddition] = additions.filter { $0.outcome == .added }
        #expect(new.count == 2)

        let photo = JobRequest(
            method: .put, url: photoURL, body: .file(photoFile))
        let film = JobRequest(url: filmURL, destination: filmFile)
        try await queue.add(contentsOf: [
            Job("photo", photo), Job("film", film),
        ])

        let status: QueueStatus = try await queue.status()
        print(status[JobState.waiting], status.unfinishedCount)
        print(try await queue.why("parcel-17"))
        #expect(status[.waiting] == 3 && status.unfinishedCount == 4)  // not on the page

        let express = JobSelection(states: [.blocked], tag: "express")
        for record in try await store.jobs(express, after: 0, limit: 100) {
            let held: JobHolds = record.life.holds
            print(record.job.id, record.added, held.isBehindGroup)
            let blockers = try await store.blockers(of: record.job.id)
            for blocker: JobBlocker in blockers {
                print("  waits for", blocker.id, blocker.reason)
                #expect(blocker.id == order && blocker.reason == .dependency)  // not on the page
            }
        }

        queue.start([
            "payment": { job, result in
                guard result.isSuccess else {
                    return .fail(result.failure ?? "refused")
                }
                await ledger.note(job.id, receipt: result.body)
                return .done
            },
            "parcel": { (job: Job, result: JobResult) -> JobDecision in
                switch result.statusCode {
                case 200, 201: .done
                case 404: .retry(after: .seconds(600))
                default: .fail(result.failure ?? "not taken")
                }
            },
        ])
        await queue.drain()
        #expect(await ledger.receipts == [order: Data("paid".utf8)])
        #expect(try Data(contentsOf: filmFile) == Data("a film".utf8))
        #expect(try await queue.results().map(\.job.kind).sorted() == ["film", "photo"])

        try await queue.add(Job("photo", JobRequest(url: server.url("/nowhere"))))
        await queue.drain()
        let letters: [JobRecord] = try await queue.deadLetters()
        for letter in letters {
            let last: JobAttempt? = letter.attempts.last
            print(letter.job.id, letter.failure ?? "", last?.message ?? "")
        }
        let all = Set(letters.map(\.job.id))
        try await queue.retry(JobSelection(ids: all))
        #expect(letters.count == 1)

        do {
            try await queue.add(payment)
        } catch {
            let code: QueueError.Code = error.code
            print(code, error.message)  // nothing was added
        }
        await queue.close()
    }

    /// This code is only compiled, because the tests of the PostgreSQL store start their own server.
    private func stores(_ file: URL) async throws -> [any Store] {
        let here: any Store = try SQLiteStore(at: file)
        let shared = try await PostgresStore("postgres://queue@db.example/orders")
        return [here, shared]
    }

    private func work(_ job: Job) async -> Bool { job.kind == "work" }

    @Test func aStoreByItself() async throws {
        let place = try StorePlace()
        let store: any Store = try SQLiteStore(at: place.file)
        let url = try #require(URL(string: "https://example.com/a"))
        _ = try await store.add([Job("work", JobRequest(url: url)), Job("other", JobRequest(url: url))])

        let request = ClaimRequest(limit: 10, lease: .seconds(30))
        let first: Exchange = try await store.exchange([], claiming: request)
        let claims: [Claim] = first.jobs.map(\.claim)
        let lost = try await store.renew(claims, for: .seconds(30))
        #expect(lost.isEmpty)
        var settlements: [Settlement] = []
        for claimed: ClaimedJob in first.jobs {
            let verdict: JobVerdict =
                await work(claimed.job) ? .done : .retry(after: .seconds(60))
            settlements.append(Settlement(claimed.claim, verdict))
        }
        let last = try await store.exchange(settlements, claiming: nil)
        print(last.isSettled)  // false for a job that was lost meanwhile
        #expect(last.isSettled == [true, true])

        var life = JobLife()
        print(life.handle(.claimed(by: "a worker")))  // true
        let lease: JobLease? = life.lease
        let done = JobLife.Event.settled(token: lease?.token ?? 0, .done)
        print(life.handle(done), life.state)  // true, done
        print(life.handle(.cancelled))  // false: it has ended
        #expect(life.state == .done)
        await store.close()
    }

    @Test func secretsAreRefusedWithAHint() async throws {
        let url = try #require(URL(string: "https://example.com/a"))
        let secrets: [Request<Data>] = [
            .get(url).bearer("secret"), .get(url).header("cookie", "secret"),
            .get(url).header("X-Api-Key", "secret"), .get(url).header("x_auth-token", "secret"),
            .get(url).header("Proxy-Authorization", "secret"), .get(url).secretHeader("X-Key", "secret"),
            .get("https://user:secret@example.com/a"),
        ]
        let file = FileManager.default.temporaryDirectory.appending(path: "convoy-queue-\(UUID().uuidString)")
        let queue = try DurableQueue(at: file, manager: RequestManager())
        for request in secrets {
            do {
                try await queue.add(Job("test", try JobRequest(request)))
                Issue.record("\(request) was added")
            } catch {
                #expect(error.code == .invalidJob && error.message.contains("interceptor"), "\(error)")
                #expect(!error.message.contains("secret "), "\(error)")
            }
        }
        #expect(try await queue.status().counts.isEmpty)
        await queue.close()
        for suffix in ["", "-wal", "-shm", "-convoy"] {
            try? FileManager.default.removeItem(atPath: file.path + suffix)
        }
    }

    @Test func bodiesThatCannotBeKeptAreRefused() throws {
        let url = try #require(URL(string: "https://example.com/a"))
        let request = Request<Data>(method: .post, url: url).body(stream: { InputStream(data: Data()) })
        #expect(throws: QueueError.self) { try JobRequest(request) }
        let form = Request<Data>(method: .post, url: url).form([URLQueryItem(name: "a", value: "b")]).query("c", "d")
        let kept = try JobRequest(form)
        #expect(kept.body == .data(Data("a=b".utf8)) && kept.url.absoluteString == "https://example.com/a?c=d")
        #expect(kept.headerFields["Content-Type"] == "application/x-www-form-urlencoded")
    }
}
