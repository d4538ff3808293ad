#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Kinds of traffic, and the server for them.
    final class SoakTraffic: Sendable {
        /// The first failure of each kind.
        let failures = Locked<[String: String]>([:])
        private let base: String
        private let directory: URL
        private let manager: RequestManager

        init(base: String, directory: URL) {
            self.base = base
            self.directory = directory
            var configuration = RequestManager.Configuration(maxConcurrentOperationCount: 32, maxConcurrentPerHost: 32)
            configuration.retries = RetryPolicy(maxRetries: 5, baseDelay: .milliseconds(1))
            configuration.retryBudget = .unlimited
            configuration.cookies = CookieJar()
            manager = RequestManager(configuration: configuration)
        }

        /// Responds by the first component of the path.
        static func serve(on server: TestServer) {
            let counts = Locked<[String: Int]>([:])
            let version = Data((0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
            server.respond { request in
                let count = counts.withLock { counts in
                    if counts.count > 10_000 { counts = [:] }
                    counts[request.target, default: 0] += 1
                    return counts[request.target, default: 1]
                }
                switch request.path.split(separator: "/").first {
                case "closed": return Reply.body(Data(repeating: 1, count: 5_000)).closingConnection()
                case "redirect": return .redirect(to: "/plain" + request.target)
                case "retry" where !count.isMultiple(of: 2): return .status(503)
                case "file":
                    let whole = Reply.resource(version, etag: "\"v\"")
                    return count.isMultiple(of: 2) ? whole : whole.disconnecting(afterBytes: 30_000)
                case "cookie":
                    return .status(200, headerFields: [("Set-Cookie", "c\(count % 50)=\(request.target)")], body: "ok")
                case "events":
                    return .chunked(
                        (0..<20).map { Data("id: \($0)\ndata: event \($0)\n\n".utf8) },
                        headerFields: [("Content-Type", "text/event-stream")])
                default: return .body(Data(repeating: 1, count: 5_000))
                }
            }
        }

        /// Sends some requests of each kind, all kinds at the same time.
        func round() async {
            await withTaskGroup(of: Void.self) { group in
                for (kind, work) in kinds {
                    group.addTask {
                        do { try await work() } catch {
                            self.failures.withLock { $0[kind] = $0[kind] ?? String(describing: error) }
                        }
                    }
                }
            }
        }

        private func url(_ kind: String) -> String { "\(base)\(kind)/\(UInt32.random(in: 0...UInt32.max))" }

        private func send(
            _ count: Int, _ kind: String, _ make: (String) -> Request<Data> = { Request<Data>.get($0) }
        ) async throws {
            for _ in 0..<count { _ = try await manager.send(make(url(kind))) }
        }

        private var kinds: [(String, @Sendable () async throws -> Void)] {
            [
                ("kept", { try await self.send(20, "kept") }), ("closed", { try await self.send(10, "closed") }),
                ("redirects", { try await self.send(5, "redirect") }), ("retries", { try await self.send(3, "retry") }),
                ("cookies", { try await self.send(5, "cookie") }), ("downloads", { try await self.download() }),
                ("cancelled", { try await self.cancel() }), ("managers", { try await self.useAnotherManager() }),
                (
                    "bodies",
                    {
                        let body = Data(repeating: 2, count: 30_000)
                        try await self.send(5, "post") { Request<Data>.post($0).body(body) }
                    }
                ),
                (
                    "forms",
                    {
                        var form = MultipartForm()
                        form.append("value", name: "field")
                        form.append(Data(repeating: 3, count: 10_000), name: "file", fileName: "f")
                        try await self.send(3, "form") { [form] in Request<Data>.post($0).multipart(form) }
                    }
                ),
                (
                    "events",
                    {
                        var count = 0
                        for try await _ in self.manager.events(of: .get(self.url("events"))).prefix(20) { count += 1 }
                        guard count == 20 else { throw CocoaError(.fileReadCorruptFile) }
                    }
                ),
            ]
        }

        private func download() async throws {
            for index in 0..<3 {
                let file = directory.appending(path: "f\(index)")
                let size = try await manager.download(.get(url("file")), to: file).response().transfer.download
                    .completedBytes
                guard size == 60_000 else { throw CocoaError(.fileReadCorruptFile) }
            }
        }

        private func cancel() async throws {
            let operations = (0..<10).map { _ in manager.enqueue(Request<Data>.get(url("cancelled"))) }
            for operation in operations { operation.cancel() }
            for operation in operations { _ = try? await operation.response() }
        }

        /// Uses another manager, with credentials.
        private func useAnotherManager() async throws {
            var configuration = RequestManager.Configuration()
            configuration.interceptors = [
                try BearerAuthenticator(origins: URL(string: base).map { [$0] } ?? []) { _ in "token" }
            ]
            let manager = RequestManager(configuration: configuration)
            for _ in 0..<3 { _ = try await manager.send(Request<Data>.get(url("bearer"))) }
        }
    }
#endif
