import Convoy
import ConvoyTesting
import Foundation

struct ChainScene: DemoScene {
    private struct Token: Codable { var token: String }

    private struct User: Codable {
        var id: Int
        var name: String
    }

    private struct Entry: Codable {
        var title: String
        var bytes: Int
    }

    private typealias Outcomes = (
        login: Result<Token, RequestError>, me: Result<User, RequestError>, list: Result<[Entry], RequestError>
    )

    let name = "chain"
    let summary =
        "POST /login, then GET /me with the token, then that user's list; and one that fails at its first link"

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict {
        let token = UUID().uuidString
        Self.script(server, token: token)
        let start = ContinuousClock.now
        let good = await run(manager, server, password: "correct horse")
        let goodCount = server.requestCount
        let bad = await run(manager, server, password: "wrong")
        let badCount = server.requestCount - goodCount
        return judge(good, bad, goodCount, badCount, time: .now - start)
    }

    private static func script(_ server: TestServer, token: String) {
        server.route("/login") { request in
            let credentials = try? JSONDecoder().decode([String: String].self, from: request.body)
            guard request.method == "POST", credentials?["password"] == "correct horse" else { return .status(401) }
            return .json(#"{"token": "\#(token)"}"#)
        }
        for (path, body) in [
            "/me": #"{"id": 7, "name": "Ada"}"#,
            "/users/7/list": #"[{"title": "engine", "bytes": 1200}, {"title": "notes", "bytes": 34000}]"#,
        ] {
            server.route(path) { request in
                request.value(of: "Authorization") == "Bearer \(token)" ? .json(body) : .status(401)
            }
        }
    }

    private func run(_ manager: RequestManager, _ server: TestServer, password: String) async -> Outcomes {
        let login = manager.operation(
            Request<Token>.post(server.url("/login"), json: ["user": "ada", "password": password]))
        let me: RequestOperation<User> = manager.operation(after: login) { login in
            .get(server.url("/me")).bearer(login.value.token)
        }
        let list: RequestOperation<[Entry]> = manager.operation(after: me) { me in
            guard let token = try login.result?.get().value.token else { throw CancellationError() }
            return .get(server.url("/users/\(me.value.id)/list")).bearer(token)
        }
        manager.enqueue(login, me, list)
        return await (Self.outcome(of: login), Self.outcome(of: me), Self.outcome(of: list))
    }

    private static func outcome<Value>(of operation: RequestOperation<Value>) async -> Result<Value, RequestError> {
        do { return .success(try await operation.response().value) } catch { return .failure(error) }
    }

    private func judge(
        _ good: Outcomes, _ bad: Outcomes, _ goodCount: Int, _ badCount: Int, time: Duration
    ) -> DemoVerdict {
        var problems: [String] = []
        let (name, entries) = ((try? good.me.get())?.name, (try? good.list.get()) ?? [])
        if name != "Ada" || entries.map(\.title) != ["engine", "notes"] {
            problems.append("the chain ended with \(good.me) and \(good.list)")
        }
        if goodCount != 3 { problems.append("the server received \(goodCount) requests of the chain instead of 3") }
        let codes = [bad.login.code, bad.me.code, bad.list.code]
        if codes != [.unacceptableStatus, .dependencyFailed, .dependencyFailed] {
            problems.append("the links of the failing chain ended with \(codes.map { $0?.description ?? "success" })")
        }
        if badCount != 1 {
            problems.append("the server received \(badCount) requests of the failing chain instead of 1")
        }
        return (
            "\(goodCount) requests gave \(name ?? "nobody") and a list of \(entries.count) in \(Figures.time(time)); "
                + "after a failed login 2 links ended with dependencyFailed, the server received \(badCount) request of 3",
            problems
        )
    }
}

extension Result where Failure == RequestError {
    fileprivate var code: RequestError.Code? { if case .failure(let error) = self { error.code } else { nil } }
}
