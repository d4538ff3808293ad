// A program whose default isolation is the main actor, as in new projects. A declaration without `nonisolated` is
// isolated to the main actor.
import Convoy
import ConvoyTesting
import Foundation
import Testing

/// An account that is decoded on a thread of the library, and is therefore `nonisolated`.
nonisolated struct Account: Decodable, Sendable, Equatable {
    var id: Int
    var firstName: String
}

/// The credentials, which are encoded on the main actor, where the request is built.
struct Credentials: Encodable {
    var name: String
}

nonisolated struct Problem: Error, Decodable, Equatable {
    var title: String
}

/// The state that a view shows.
final class AccountModel {
    private(set) var account: Account?
    private(set) var message = ""
    private(set) var receivedBytes: Int64 = 0
    private(set) var tiles: [Int] = []
    private var urls = ["http://example.com/tiles/0", "http://example.com/tiles/1"]
    private let manager: RequestManager

    init(_ manager: RequestManager) { self.manager = manager }

    func load() async {
        do {
            let request = Request<Account>.get("accounts/1").failing(with: Problem.self)
            account = try await manager.send(request).value
        } catch {
            message = error.refusal(as: Problem.self)?.title ?? error.message
        }
    }

    func logIn(whenDone: @escaping () -> Void) {
        let login = manager.operation(Request<Account>.post("login", json: Credentials(name: "ada")))
        login.onProgress(on: .main) { self.receivedBytes = $0.download.completedBytes }
        login.onFinish(on: .main) { [weak self] result in
            self?.account = try? result.get().value
            whenDone()
        }
        manager.enqueue(contentsOf: [login])
    }

    func loadTiles() async {
        let urls = urls
        let batch = manager.batch(count: urls.count) { Request<Data>.get(urls[$0]) }
        tiles = await batch.results.map { (try? $0.get().statusCode) ?? 0 }
    }
}

@Suite struct MainActorExampleTests {
    private let stub = StubTransport()

    private func makeModel() -> AccountModel {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return AccountModel(
            RequestManager(
                configuration: .init(
                    baseURL: URL(string: "http://example.com/v1"), headerFields: ["Accept-Language": "en"],
                    decoder: decoder, transport: .custom(stub))))
    }

    @Test func aModelOfTheMainActorIsFilledByAwaiting() async {
        stub.route(.get, "/v1/accounts/1", replies: .json(#"{"id": 1, "first_name": "Ada"}"#))
        let model = makeModel()
        await model.load()
        #expect(model.account == Account(id: 1, firstName: "Ada"))
    }

    @Test func theMessageOfAFailedResponseIsShown() async {
        stub.route(.get, "/v1/accounts/*", replies: .json(#"{"title": "gone"}"#, statusCode: 410))
        let model = makeModel()
        await model.load()
        #expect(model.message == "gone")
    }

    @Test func callbacksOnTheMainActorUseTheModel() async {
        stub.route(.post, "/v1/login", replies: .json(#"{"id": 2, "first_name": "Ada"}"#))
        let model = makeModel()
        await withCheckedContinuation { continuation in
            model.logIn { continuation.resume() }
        }
        #expect(model.account?.id == 2)
        // Progress that arrives after the result is not delivered.
        #expect([0, 30].contains(model.receivedBytes))
    }

    @Test func aLazyBatchIsMadeOnTheMainActor() async {
        stub.route(host: "example.com", "/tiles/*", replies: .status(200), .status(201))
        let model = makeModel()
        await model.loadTiles()
        #expect(model.tiles.sorted() == [200, 201])
    }
}
