import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite final class InterruptionRunningTests: CommandTests {
    @Test(arguments: [(SIGINT, 130, "interrupted"), (SIGTERM, 143, "terminated")])
    func aSignalCancelsAndKeepsNothingThatCannotBeContinued(signal: Int32, status: Int32, word: String) async throws {
        let gate = Gate()
        server.respond { _ in .generated(byteCount: 1_000_000).stalling(afterBodyBytes: 500_000, until: gate) }
        try write("old", to: "a")
        let child = try ConvoyProcess(["fetch", "-o", directory.url.path, url("/a"), url("/b")])
        try await gate.reached(count: 2, within: .seconds(120))
        child.send(signal)
        try await child.ended(
            status: status, prints: ["^\(word): 0 files, 0 B in ", ", 2 cancelled; exit status \(status)\n$"],
            errors: "")
        #expect(try directory.names() == ["a"])
        #expect(try content("a") == "old")
    }

    @Test(.enabled(if: ConvoyProcess.hasSilentLoader, "the loader writes there too"), arguments: [false, true])
    func aBackOffCanBeInterrupted(isJSON: Bool) async throws {
        server.respond { _ in .status(503, headerFields: [("Retry-After", "300")]) }
        let told = Pipe()
        let child =
            isJSON
            ? try ConvoyProcess(["fetch", "--json", "-o", directory.url.path, url("/a")], output: told)
            : try ConvoyProcess(["fetch", "-o", directory.url.path, url("/a")], errors: told)
        try told.fileHandleForWriting.close()
        let before = await told.text(until: isJSON ? #""event":"retry""# : "attempt 2 of ")
        child.send(SIGINT)
        let text = before + (await told.text())
        let ending = try await child.ended(status: 130)
        // The summary shows that the run stopped by itself: after 5 seconds the process would exit without one.
        if isJSON {
            let told = ConvoyProcess.Ending(status: 130, isSignalled: false, output: text, errors: "")
            #expect(told.steps == ["started", "retry", "failed", "summary"])
            #expect(told.values("failed", "code", "attempts") == "cancelled 1")
            #expect(told.values("summary", "cancelled", "exit_status") == "1 130")
        } else {
            #expect(ending.output.hasPrefix("interrupted: 0 files, 0 B in "))
            #expect(ending.output.hasSuffix(", 1 cancelled; exit status 130\n"))
            #expect(text.split(separator: "\n").count == 1)
        }
        #expect(server.requestCount == 1)
    }

    @Test func aClosedOutputEndsTheRunQuietly() async throws {
        let gate = Gate()
        server.route("/slow") { _ in .generated(byteCount: 1_000).stalling(afterBodyBytes: 10, until: gate) }
        server.route("/a") { _ in .status(200, body: "x") }
        let output = Pipe()
        try output.fileHandleForReading.close()
        try await convoy(
            "fetch", "-o", directory.url.path, url("/slow"), url("/a"), output: output, status: 141, errors: "")
        #expect(try directory.names() == ["a"])
    }

    @Test func streamsThatWereClosedBeforeTheStartAreNotWrittenTo() async throws {
        server.respond { _ in .status(200, body: "x") }
        let script = "exec \"$0\" fetch -o \"$@\" >&- 2>&- <&-"
        try await convoy(shell: script, directory.url.path, "--quiet", url("/a"))
        #expect(try content("a") == "x")
        try await convoy(shell: script, directory.url.path, url("/a"), status: 141)
        #expect(try content("a") == "x")
        try await convoy(shell: script, directory.url.path, "-i", "-", status: 2)
    }

    @Test func theDemoSucceeds() async throws {
        let ending = try await convoy("demo", errors: "")
        #expect(ending.output.components(separatedBy: "  ok: ").count == 4)
        #expect(ending.output.contains(#/continued, 3\.. MB received in .*, 2[0-9]{6} bytes were not fetched again/#))
    }
}

@Suite struct InterruptionTests {
    private let left = Locked<[ConvoyCommand.ExitStatus]>([])
    private let stopCount = Locked(0)

    private func makeInterruption() -> Interruption {
        Interruption { [left] status in left.withLock { $0.append(status) } }
    }

    @Test func theFirstSignalStopsAndTheSecondLeavesAtOnce() {
        let interruption = makeInterruption()
        interruption.onStop { [stopCount] in stopCount.withLock { $0 += 1 } }
        let now = ContinuousClock.now
        interruption.received(.interrupted, at: now)
        #expect(stopCount.withLock { $0 } == 1)
        #expect(left.withLock { $0 } == [])
        // `timeout` sends a signal twice, which counts as one.
        interruption.received(.interrupted, at: now + .milliseconds(99))
        #expect(left.withLock { $0 } == [])
        interruption.received(.terminated, at: now + .milliseconds(100))
        #expect(stopCount.withLock { $0 } == 1)
        #expect(left.withLock { $0 } == [.terminated])
        #expect(interruption.reason == .interrupted)
    }

    @Test func aSignalBeforeTheRunStopsTheRunAtItsStart() {
        let interruption = makeInterruption()
        interruption.received(.hangUp)
        interruption.onStop { [stopCount] in stopCount.withLock { $0 += 1 } }
        #expect(stopCount.withLock { $0 } == 1)
        #expect(interruption.reason == .hangUp)
    }
}
