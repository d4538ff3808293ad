// For tests that need a process of their own: exit tests.
import Foundation

/// Ends this process, a child's, with a failure should it still be there after a while: nobody else would end it.
func endProcessIfStuck(after seconds: Int = 60) {
    Thread.detachNewThread {
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .seconds(seconds))
        _exit(9)
    }
}
