// Running something on another thread's run loop, and waking it.
import Foundation

/// A run loop that other threads may have something run on.
final class RunLoopWaker: @unchecked Sendable {
    // @unchecked: `RunLoop` is not Sendable. It is used here only to add timers and blocks, which CFRunLoop guards with
    // locks of its own; everything else of it stays on its thread.
    private let loop: RunLoop
    private let modes: [RunLoop.Mode]

    init(_ loop: RunLoop, modes: [RunLoop.Mode]) {
        self.loop = loop
        self.modes = modes
    }

    /// Runs something on the loop, once, when it runs in one of the modes.
    func perform(_ work: @escaping @Sendable () -> Void) {
        #if canImport(Darwin)
            loop.perform(inModes: modes, block: work)
            CFRunLoopWakeUp(loop.getCFRunLoop())
        #else
            // SCF's `perform` does not wake the loop (0.75 to 2 s measured with another timer far off) and there is no
            // other call that does; adding a timer re-arms the loop's clock, which does so within a fraction of a
            // millisecond. In several modes one timer serves; it fires once.
            let timer = Timer(fire: Date(timeIntervalSinceNow: 0), interval: 0, repeats: false) { _ in work() }
            for mode in modes { loop.add(timer, forMode: mode) }
        #endif
    }
}
