// Requests that a server can tell apart, and their results.
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Sends numbered requests to nginx, every second one a POST, and compares them with the server's log.
    final class HTTP2Load: Sendable {
        private let server: Nginx
        private let manager: @Sendable (Int) throws -> RequestManager
        let failures = EventLog<RequestError>()
        /// The number of the request, and the time of its response in seconds since 1970.
        let ends = EventLog<(number: Int, time: Double)>()
        private let numbers = Locked(0)

        /// The current content of the server's log.
        var answers: [Nginx.Answer] { server.answers.events }

        init(_ server: Nginx) {
            self.server = server
            let transport = Result { try CurlTransport(ConnectionOptions.trustingTestAuthority()) }
            manager = { count in
                var configuration = RequestManager.Configuration()
                configuration.maxConcurrentOperationCount = count
                configuration.maxConcurrentPerHost = count
                configuration.transport = .custom(try transport.get())
                return RequestManager(configuration: configuration)
            }
        }

        /// Sends requests and waits for all of them.
        func run(requests count: Int, atOnce: Int) async throws {
            let manager = try manager(atOnce)
            let first = numbers.withLock { number in
                defer { number += count }
                return number
            }
            let before = ends.count
            for number in first..<(first + count) {
                let url = server.url("/\(number)")
                let request = number.isMultiple(of: 2) ? Request<String>.get(url) : .post(url).body("body \(number)")
                let operation = manager.operation(request)
                operation.onFinish { [self] result in
                    if case .failure(let error) = result { failures.record(error) }
                    ends.record((number, Date().timeIntervalSince1970))
                }
                manager.enqueue(operation)
            }
            await ends.wait(count: before + count)
        }

        /// Expects that the server responded to each request exactly once.
        func expectEachAnsweredOnce(sourceLocation: SourceLocation = #_sourceLocation) async {
            let count = numbers.withLock { $0 }
            await server.answers.wait(count: count, sourceLocation: sourceLocation)
            let targets = server.answers.events.map(\.target)
            #expect(targets.count == count, sourceLocation: sourceLocation)
            #expect(Set(targets).count == targets.count, sourceLocation: sourceLocation)
        }
    }
#endif
