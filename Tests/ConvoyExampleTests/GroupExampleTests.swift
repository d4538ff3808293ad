// Work of unknown size, in a module that belongs to the main actor.
import Convoy
import ConvoyTesting
import Foundation
import Testing

/// A page of a list; the `Link` field of its response names the next page.
nonisolated struct FileList: Decodable, Sendable {
    var names: [String]
}

/// Fetches all files of a list, then reports how many there were.
final class FileSync {
    private(set) var message = ""
    private let manager: RequestManager

    init(_ manager: RequestManager) { self.manager = manager }

    func run(whenDone: @escaping () -> Void) {
        let sync = manager.operation(named: "sync") { [manager] group in
            var count = 0
            for try await page in manager.pages(Request<FileList>.get("files")) {
                for name in page.value.names { group.enqueue(Request<Data>.get("files/\(name)"), onFailure: .ignore) }
                count += page.value.names.count
            }
            return count
        }
        let account = manager.operation(Request<Account>.get("accounts/1"))
        let report = manager.operation(after: sync, account.optional) { count, account in
            Request<Void>.post("report").query(["files": count, "account": account?.value.id ?? 0])
        }
        sync.onFinish(on: .main) { [weak self] in self?.message = "\((try? $0.get()) ?? 0) files" }
        report.onFinish(on: .main) { _ in whenDone() }
        manager.enqueue(sync, account, report)
    }
}

@Suite struct GroupExampleTests {
    @Test func aSyncOfUnknownSizeIsOneOperation() async {
        let stub = StubTransport()
        stub.route(host: "api.example.com", "/v1/files") { request in
            guard request.url.query == nil else { return .json(#"{"names": ["c"]}"#) }
            return .status(
                200, headerFields: ["Link": "<files?page=2>; rel=\"next\""],
                body: Data(#"{"names": ["a", "b"]}"#.utf8))
        }
        stub.route("/v1/files/*", replies: .status(200))
        stub.route("/v1/accounts/1", replies: .status(404))
        stub.route(.post, "/v1/report", replies: .status(204))
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: 1, baseURL: URL(string: "https://api.example.com/v1"))
        configuration.transport = .custom(stub)
        let model = FileSync(RequestManager(configuration: configuration))
        await withCheckedContinuation { continuation in
            model.run { continuation.resume() }
        }
        #expect(model.message == "3 files")
        let paths = stub.calls.map { $0.url.path + ($0.url.query.map { "?\($0)" } ?? "") }
        #expect(Set(paths).isSuperset(of: ["/v1/files/a", "/v1/files/b", "/v1/files/c"]))
        #expect(paths.last == "/v1/report?account=0&files=3")
    }
}
