#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    final class SoakTraffic: Sendable {
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
                for (kind, count) in Self.kinds {
                    group.addTask {
                        do { try await self.send(count, kind) } catch {
                            self.failures.withLock { $0[kind] = $0[kind] ?? String(describing: error) }
                        }
                    }
                }
            }
        }

        /// The number of requests of each kind in a round.
        private static let kinds = [
            "kept": 20, "closed": 10, "redirect": 5, "retry": 3, "cookie": 5, "post": 5, "form": 3, "bearer": 3,
            "file": 3, "cancelled": 10, "events": 20,
        ]

        private func url(_ kind: String) -> String { "\(base)\(kind)/\(UInt32.random(in: 0...UInt32.max))" }

        private func send(_ count: Int, _ kind: String) async throws {
            switch kind {
            case "file":
                for index in 0..<count {
                    let file = directory.appending(path: "f\(index)")
                    let response = try await manager.download(.get(url(kind)), to: file).response()
                    try #require(response.transfer.download.completedBytes == 60_000)
                }
            case "cancelled":
                let operations = (0..<count).map { _ in manager.enqueue(Request<Data>.get(url(kind))) }
                for operation in operations { operation.cancel() }
                for operation in operations { _ = try? await operation.response() }
            case "events":
                var received = 0
                for try await _ in manager.events(of: .get(url(kind))).prefix(count) { received += 1 }
                try #require(received == count)
            default:
                let manager = kind == "bearer" ? try authenticating() : manager
                for _ in 0..<count { _ = try await manager.send(request(kind)) }
            }
        }

        private func request(_ kind: String) -> Request<Data> {
            switch kind {
            case "post": return .post(url(kind)).body(Data(repeating: 2, count: 30_000))
            case "form":
                var form = MultipartForm()
                form.append("value", name: "field")
                form.append(Data(repeating: 3, count: 10_000), name: "file", fileName: "f")
                return .post(url(kind)).multipart(form)
            default: return .get(url(kind))
            }
        }

        private func authenticating() throws -> RequestManager {
            var configuration = RequestManager.Configuration()
            configuration.interceptors = [
                try BearerAuthenticator(origins: URL(string: base).map { [$0] } ?? []) { _ in "token" }
            ]
            return RequestManager(configuration: configuration)
        }
    }
#endif
