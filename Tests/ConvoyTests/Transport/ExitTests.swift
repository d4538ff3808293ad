import CLibcurl
import Convoy
import Foundation
import Synchronization
import Testing

#if os(Linux)
    /// Tests a process that exits while a thread that has used TLS ends.
    @Suite(.timeLimit(.minutes(2))) struct ExitTests {
        /// Signals of the destructor of a thread-specific key, like that of OpenSSL.
        private static let destructorBegan = DispatchSemaphore(value: 0)
        private static let exitBegan = DispatchSemaphore(value: 0)
        private static let hasEnded = Atomic(false)

        /// Without the wait, OpenSSL's exit handler would run during OpenSSL's thread destructor.
        @Test func exitWaitsForAThreadThatEnds() async {
            await #expect(processExitsWith: .exitCode(0)) {
                // The first registered handler runs last, like that of OpenSSL.
                atexit { if !ExitTests.hasEnded.load(ordering: .acquiring) { _exit(9) } }
                convoy_watch_exit()
                atexit { ExitTests.exitBegan.signal() }
                ExitTests.endThread {
                    ExitTests.destructorBegan.signal()
                    _ = ExitTests.exitBegan.wait(timeout: .now() + 60)
                    // If the exit did not wait, its remaining handlers would end in this time.
                    ExitTests.letOthersRun()
                    ExitTests.hasEnded.store(true, ordering: .releasing)
                }
                _ = ExitTests.destructorBegan.wait(timeout: .now() + 60)
                exit(0)
            }
        }

        /// A thread that would end after the exit has begun is stopped.
        @Test func threadDoesNotEndOnceTheProcessExits() async {
            await #expect(processExitsWith: .exitCode(0)) {
                atexit { _exit(ExitTests.hasEnded.load(ordering: .acquiring) ? 9 : 0) }
                convoy_watch_exit()
                atexit {
                    // This handler runs before Convoy's, so the other thread waits until Convoy's handler has run.
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

        // Yields up to 20,000 times, so that other threads run. The loop ends after one second at the latest, because
        // the exit waits for only five seconds.
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
