import Convoy
import ConvoyTesting
import Foundation

enum DemoCommand {
    // After this time the process exits, because a scene has probably hung.
    private static let patience = DispatchTimeInterval.seconds(30)

    static func run(_ interruption: Interruption) async -> ExitStatus {
        let stage = DemoStage(console: Console(allowsLive: true), interruption: interruption)
        interruption.watch(stage.console)
        DispatchQueue.global().asyncAfter(deadline: .now() + patience) {
            Interruption.leaveAtOnce(.failure)
        }
        let start = ContinuousClock.now
        let scenes: [any DemoScene] = [BatchScene(), ChainScene(), DownloadScene()]
        var failures = 0
        for scene in scenes where stage.interruption.reason == nil {
            stage.console.printLine("\(scene.name): \(scene.summary)")
            let verdict = await stage.perform(scene)
            stage.console.endLive()
            guard stage.interruption.reason == nil else { break }
            let isGood = verdict.problems.isEmpty
            if !isGood { failures += 1 }
            let text = isGood ? "ok: \(verdict.text)" : "FAILED: \(verdict.problems.joined(separator: "; "))"
            stage.console.printLine("  \(text)")
        }
        if let reason = stage.interruption.reason {
            if let text = reason.reason { stage.console.printLine(text) }
            return reason
        }
        let outcome = failures == 0 ? "all succeeded" : "\(failures) failed"
        stage.console.printLine("\(scenes.count) scenes in \(Figures.time(.now - start)): \(outcome)")
        return stage.console.status(after: failures == 0 ? .success : .failure)
    }
}

typealias DemoVerdict = (text: String, problems: [String])

protocol DemoScene: Sendable {
    var name: String { get }
    var summary: String { get }

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict
}

struct DemoStage: Sendable {
    static let perHost = 6
    static let interval = DispatchTimeInterval.milliseconds(100)

    let console: Console
    let interruption: Interruption

    func perform(_ scene: any DemoScene) async -> DemoVerdict {
        do {
            let server = try TestServer()
            defer { server.shutDown() }
            let manager = RequestManager(
                configuration: .init(maxConcurrentOperationCount: 16, maxConcurrentPerHost: Self.perHost))
            interruption.onStop { manager.cancelAll() }
            return try await scene.play(self, server, manager)
        } catch { return ("", ["\(error)"]) }
    }
}
