// What every scene of the demo has at hand.
import Convoy
import ConvoyTesting
import Foundation

/// What a scene came to, in figures it measured.
struct DemoVerdict: Sendable {
    var isGood: Bool
    var text: String

    /// Good when nothing is wrong; else the text says what is.
    init(_ text: String, problems: [String]) {
        isGood = problems.isEmpty
        self.text = problems.isEmpty ? text : problems.joined(separator: "; ")
    }
}

/// One scene; it has the server and the manager for itself.
protocol DemoScene: Sendable {
    var name: String { get }
    var summary: String { get }

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict
}

/// Where scenes are played.
struct DemoStage: Sendable {
    static let perHost = 6

    let console: Console
    let interruption: Interruption

    /// Plays a scene to its end, which comes early after an interruption.
    func perform(_ scene: any DemoScene) async -> DemoVerdict {
        do {
            let server = try TestServer()
            defer { server.shutDown() }
            let manager = RequestManager(
                configuration: .init(maxConcurrentOperationCount: 16, maxConcurrentPerHost: Self.perHost))
            interruption.onStop { manager.cancelAll() }
            return try await scene.play(self, server, manager)
        } catch {
            return DemoVerdict("", problems: ["\(error)"])
        }
    }

    /// Calls something ten times a second while something else goes on.
    func performing<Value: Sendable>(
        ticking tick: @escaping @Sendable () -> Void, _ body: () async throws -> Value
    ) async rethrows -> Value {
        let ticker = Ticker(every: .milliseconds(100), tick)
        defer { ticker.stop() }
        return try await body()
    }
}
