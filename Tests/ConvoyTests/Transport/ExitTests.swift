import CLibcurl
import Foundation
import Synchronization
import Testing

@testable import Convoy

#if os(Linux)
    /// A process that exits while a thread that has used TLS ends.
    @Suite(.timeLimit(.minutes(2))) struct ExitTests {
        /// A key's destructor, as OpenSSL has one.
        private static let destructorBegan = DispatchSemaphore(value: 0)
        private static let exitBegan = DispatchSemaphore(value: 0)
        private static let hasEnded = Atomic(false)

        /// OpenSSL's exit handler would run while its destructor of the thread does.
        @Test func exitWaitsForAThreadThatEnds() async {
            await #expect(processExitsWith: .exitCode(0)) {
                // The first that is registered runs last, as OpenSSL's does.
                atexit { if !ExitTests.hasEnded.load(ordering: .acquiring) { _exit(9) } }
                convoy_watch_exit()
                atexit { ExitTests.exitBegan.signal() }
                ExitTests.endThread {
                    ExitTests.destructorBegan.signal()
                    _ = ExitTests.exitBegan.wait(timeout: .now() + 60)
                    // The rest of the exit handlers would be over by then.
                    ExitTests.letOthersRun()
                    ExitTests.hasEnded.store(true, ordering: .releasing)
                }
                _ = ExitTests.destructorBegan.wait(timeout: .now() + 60)
                exit(0)
            }
        }

        /// A thread that comes to its end later stays where it is.
        @Test func threadDoesNotEndOnceTheProcessExits() async {
            await #expect(processExitsWith: .exitCode(0)) {
                atexit { _exit(ExitTests.hasEnded.load(ordering: .acquiring) ? 9 : 0) }
                convoy_watch_exit()
                atexit {
                    // Runs before Convoy's, so it is another thread that asks when that has run.
                    ExitTests.exitBegan.signal()
                }
                Thread {
                    _ = ExitTests.exitBegan.wait(timeout: .now() + 60)
                    ExitTests.letOthersRun()
                    ExitTests.endThread { ExitTests.hasEnded.store(true, ordering: .releasing) }
                }.start()
                exit(0)
            }
        }

        /// Many turns for other threads; on a busy machine fewer, as the exit waits for five seconds only.
        private static func letOthersRun() {
            let end = ContinuousClock.now + .seconds(1)
            for _ in 0..<20_000 where ContinuousClock.now < end { sched_yield() }
        }

        private static func endThread(_ destructor: @escaping @Sendable () -> Void) {
            let key = Locked(pthread_key_t())
            destruction.withLock { $0 = destructor }
            _ = key.withLock { pthread_key_create(&$0) { _ in ExitTests.destruction.withLock { $0 }() } }
            let number = key.withLock { $0 }
            Thread {
                pthread_setspecific(number, UnsafeRawPointer(bitPattern: 1))
                convoy_end_thread()
            }.start()
        }

        private static let destruction = Locked<@Sendable () -> Void>({})
    }
#endif
