// Convoy, in the three ways people use it for many requests.
import Convoy
import Foundation

extension CaseSpec {
    fileprivate func makeManager(callbacks: Delivery? = nil) throws -> RequestManager {
        RequestManager(
            configuration: .init(
                maxConcurrentOperationCount: concurrency, maxConcurrentPerHost: concurrency,
                transport: try transport.choice(connectionOptions), callbacks: callbacks))
    }

    fileprivate func defect(_ result: Result<Response<Data>, RequestError>) -> String? {
        switch result {
        case .success(let response): defect(statusCode: response.statusCode, bytes: response.value.count)
        case .failure(let error): "\(error)"
        }
    }
}

/// Sends requests as a lazy batch.
struct ConvoyBatchSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let manager: RequestManager

    init(_ spec: CaseSpec, _ url: URL, callbacks: Delivery? = nil) throws {
        (self.spec, self.url, manager) = (spec, url, try spec.makeManager(callbacks: callbacks))
    }

    func send(_ count: Int, _ tally: Tally) async {
        let (spec, url) = (spec, url)
        let requests = (0..<count).lazy.map { _ in Request<Data>.get(url) }
        let batch = manager.batch(requests, keepsResults: false) { _, result in tally.add(spec.defect(result)) }
        await batch.finished()
    }
}

/// Sends requests from tasks that await `send`.
struct ConvoyTaskSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let manager: RequestManager

    init(_ spec: CaseSpec, _ url: URL) throws { (self.spec, self.url, manager) = (spec, url, try spec.makeManager()) }

    func send(_ count: Int, _ tally: Tally) async {
        let turns = Turns(count)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<spec.concurrency {
                group.addTask { [spec, url, manager] in
                    while turns.take() {
                        do throws(RequestError) {
                            let response = try await manager.send(Request<Data>.get(url))
                            tally.add(spec.defect(statusCode: response.statusCode, bytes: response.value.count))
                        } catch {
                            tally.add("\(error)")
                        }
                    }
                }
            }
        }
    }
}

/// Sends requests with `enqueue`, whose handler enqueues the next request.
struct ConvoyEnqueueSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let manager: RequestManager

    init(_ spec: CaseSpec, _ url: URL) throws { (self.spec, self.url, manager) = (spec, url, try spec.makeManager()) }

    func send(_ count: Int, _ tally: Tally) async {
        let turns = Turns(count)
        for _ in 0..<spec.concurrency { enqueueNext(turns, tally) }
        await tally.reached(count)
    }

    private func enqueueNext(_ turns: Turns, _ tally: Tally) {
        guard turns.take() else { return }
        manager.enqueue(Request<Data>.get(url)) { result in
            tally.add(spec.defect(result))
            enqueueNext(turns, tally)
        }
    }
}
