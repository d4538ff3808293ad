// The code of the page "Chains and graphs", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct ChainsPageTests {
    nonisolated struct Token: Decodable, Sendable { let token: String }
    nonisolated struct User: Decodable, Sendable { let id: String }
    nonisolated struct Order: Decodable, Sendable { let number: Int }
    private let stub = StubTransport()
    private let manager: RequestManager

    init() {
        stub.route("/login", replies: .json(#"{"token": "t"}"#))
        stub.route("/me", replies: .json(#"{"id": "ada"}"#))
        stub.route("/orders", replies: .json(#"[{"number": 1}]"#))
        stub.route("/avatar", replies: .status(404))
        stub.route("/files", replies: .json(#"["a", "b"]"#))
        stub.route("/files/*", replies: .status(200))
        stub.route("/page", replies: .status(200))
        stub.route("/sync", replies: .status(200))
        manager = RequestManager(
            configuration: .init(baseURL: URL(string: "http://example.com"), transport: .custom(stub)))
    }

    @Test func aChain() async throws {
        let credentials = ["name": "ada"]
        let login = manager.operation(
            Request<Token>.post("login", json: credentials))
        let me = manager.operation(after: login) { token in
            Request<User>.get("me").bearer(token.value.token)
        }
        let orders = manager.operation(after: me) { user in
            Request<[Order]>.get("orders").query("user", user.value.id)
        }
        manager.enqueue(login, me, orders)
        print(try await orders.response().value.count)
        #expect(stub.calls.map(\.url.path) == ["/login", "/me", "/orders"])
    }

    @Test func aFailure() async throws {
        let avatar = manager.operation(Request<Data>.get("avatar"))
        let me = manager.operation(after: avatar) { _ in Request<User>.get("me") }
        manager.enqueue(avatar, me)
        do {
            _ = try await me.response()
        } catch {
            print(error.message)  // names what failed
            print(error.underlying ?? error)
        }
        #expect(stub.calls.count == 1)
    }

    @Test func severalBefore() async throws {
        let me = manager.operation(Request<User>.get("me"))
        let avatar = manager.operation(Request<Data>.get("avatar"))
        let orders = manager.operation(Request<[Order]>.get("orders"))
        let page = manager.operation(
            after: me, avatar.optional, orders.asResult
        ) { user, avatar, orders in
            Request<Void>.post("page").query([
                "user": user.value.id,
                "hasAvatar": avatar != nil,
                "orders": (try? orders.get().value.count) ?? 0,
            ])
        }
        manager.enqueue(me, avatar, orders, page)
        try await page.response()
        #expect(stub.calls.last?.url.query?.contains("hasAvatar=0") == true)
    }

    @Test func plainDependencies() async throws {
        let first = manager.operation(Request<Data>.get("avatar"))
        let second = manager.operation(Request<Data>.get("page"))
        second.addDependency(first, onFailure: DependencyPolicy.ignore)
        let print = BlockOperation { Swift.print("both have finished") }
        print.addDependency(second)
        manager.enqueue(first, second)
        manager.queue.addOperation(print)
        #expect(try await second.response().statusCode == 200)
        await manager.drain()
    }

    @Test func aGroup() async throws {
        let sync = manager.operation(named: "sync") { (group: OperationGroup) in
            let names = try await group.send(Request<[String]>.get("files"))
            for name in names.value {
                group.enqueue(Request<Data>.get("files/\(name)"))
            }
            return names.value.count
        }
        let report = manager.operation(after: sync) { count in
            Request<Void>.post("sync", json: ["files": count])
        }
        manager.enqueue(sync, report)
        try await report.response()
        #expect(stub.calls.count == 4)
    }

    @Test func pages() async throws {
        var all: [String] = []
        for try await page in manager.pages(Request<[String]>.get("files")) {
            all += page.value
        }
        #expect(all == ["a", "b"])
    }

    @Test func somethingThatHasAnOperation() async throws {
        let login = manager.operation(Request<Token>.get("login"))
        struct Session: TypedDependency {
            let login: RequestOperation<Token>
            var input: DependencyInput<Response<Token>> { login.input }
        }

        let session = Session(login: login)
        let me = manager.operation(after: session) { token in
            Request<User>.get("me").bearer(token.value.token)
        }
        manager.enqueue(login, me)
        #expect(try await me.response().value.id == "ada")
    }
}
