// async-http-client, with futures and with async functions.
import AsyncHTTPClient
import Foundation

extension CaseSpec {
    /// A client with the default configuration, except that the pool has a connection for each request in flight.
    fileprivate func makeClient() -> HTTPClient {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = concurrency
        if let cacert {
            configuration.tlsConfiguration = .makeClientConfiguration()
            configuration.tlsConfiguration?.trustRoots = .file(cacert)
        }
        if http == .http1 { configuration.httpVersion = .http1Only }
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }
}

/// Sends requests with event loop futures; each response sends the next request.
struct FutureSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let client: HTTPClient

    init(_ spec: CaseSpec, _ url: URL) { (self.spec, self.url, client) = (spec, url, spec.makeClient()) }

    func send(_ count: Int, _ tally: Tally) async {
        let turns = Turns(count)
        for _ in 0..<spec.concurrency { sendNext(turns, tally) }
        await tally.reached(count)
    }

    private func sendNext(_ turns: Turns, _ tally: Tally) {
        guard turns.take() else { return }
        client.get(url: url.absoluteString).whenComplete { result in
            switch result {
            case .success(let response):
                tally.add(
                    spec.defect(statusCode: Int(response.status.code), bytes: response.body?.readableBytes ?? 0))
            case .failure(let error): tally.add("\(error)")
            }
            sendNext(turns, tally)
        }
    }

    func end() async throws { try await client.shutdown() }
}

/// Sends requests with async functions in a task group.
struct TaskGroupSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let client: HTTPClient

    init(_ spec: CaseSpec, _ url: URL) { (self.spec, self.url, client) = (spec, url, spec.makeClient()) }

    func send(_ count: Int, _ tally: Tally) async {
        let turns = Turns(count)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<spec.concurrency {
                group.addTask { [spec, url, client] in
                    let request = HTTPClientRequest(url: url.absoluteString)
                    while turns.take() {
                        do {
                            let response = try await client.execute(request, timeout: .seconds(60))
                            let body = try await response.body.collect(upTo: 1 << 24)
                            tally.add(
                                spec.defect(statusCode: Int(response.status.code), bytes: body.readableBytes))
                        } catch {
                            tally.add("\(error)")
                        }
                    }
                }
            }
        }
    }

    func end() async throws { try await client.shutdown() }
}
