// `convoy demo`: three scenes with a built-in server.
import Convoy
import ConvoyTesting
import Foundation

/// Runs the subcommand `demo`.
enum DemoCommand {
    /// The maximum time of the demo, which normally takes about five seconds.
    ///
    /// After this time the process exits, because a scene has probably hung.
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
            if !verdict.isGood { failures += 1 }
            stage.console.printLine("  \(verdict.isGood ? "ok" : "FAILED"): \(verdict.text)")
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
