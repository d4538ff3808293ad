// The environment of the demo's scenes.
import Convoy
import ConvoyTesting
import Foundation

/// The result of a scene, with its measurements.
struct DemoVerdict: Sendable {
    var isGood: Bool
    var text: String

    /// Makes a good verdict with the text, or a bad verdict that lists the problems.
    init(_ text: String, problems: [String]) {
        isGood = problems.isEmpty
        self.text = problems.isEmpty ? text : problems.joined(separator: "; ")
    }
}

/// One scene of the demo.
protocol DemoScene: Sendable {
    var name: String { get }
    var summary: String { get }

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict
}

/// Runs each scene with its own server and manager.
struct DemoStage: Sendable {
    static let perHost = 6
    static let interval = DispatchTimeInterval.milliseconds(100)

    let console: Console
    let interruption: Interruption

    /// Runs a scene; an interruption cancels its requests.
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
}
