// Where requests wait for the thread that moves their bytes.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Synchronization

    /// One thread around libcurl, and the way to it from all others.
    ///
    /// The thread begins with the first request and ends, with every connection closed, when there has been no work for
    /// ``ConnectionOptions/idleConnectionTime``, or none at all once its transport has gone. Nothing that waits runs on it:
    /// no user code, no disk.
    final class CurlEngine: Sendable {
        private struct Inbox {
            var transfers: [CurlTransfer] = []
            /// Whether the thread will look at the inbox before it sleeps.
            var isAwake = false
            /// Wakes the thread; nil while there is none, or before it can be.
            var wakeup: Wakeup?
            var isClosing = false
        }

        private let inbox = Locked(Inbox())
        /// How often this process had been forked off another when the thread began; -1 without a thread.
        private let forkCount = Atomic<Int32>(-1)
        /// Tasks that have been made and not let go of.
        private let tasks = Atomic(0)
        let options: ConnectionOptions

        init(_ options: ConnectionOptions) { self.options = options }

        // MARK: From any thread

        /// Has the thread look at what the owner of a transfer wants.
        func look(at transfer: CurlTransfer, _ wish: (inout DesiredTransferState) -> Void) {
            let isFirst = transfer.desired.withLock { desired in
                wish(&desired)
                transfer.isSuspended.store(desired.isSuspended, ordering: .releasing)
                defer { desired.isQueued = true }
                return !desired.isQueued
            }
            guard isFirst else { return }
            let (startsThread, wakeup): (Bool, Wakeup?) = inbox.withLock { inbox in
                inbox.transfers.append(transfer)
                guard !inbox.isAwake else { return (false, nil) }
                inbox.isAwake = true
                if inbox.wakeup == nil { forkCount.store(convoy_fork_count(), ordering: .relaxed) }
                return (inbox.wakeup == nil, inbox.wakeup)
            }
            // Not under the lock, which the thread takes as soon as it is awake.
            wakeup?.signal()
            if startsThread { startThread() }
        }

        /// Whether this process was forked off the one whose thread does the work: this one has no such thread.
        var isOfAnotherProcess: Bool {
            let count = forkCount.load(ordering: .relaxed)
            return count != -1 && count != convoy_fork_count()
        }

        /// How much it has to do.
        var taskCount: Int { tasks.load(ordering: .relaxed) }

        func countTask(_ change: Int) { tasks.add(change, ordering: .relaxed) }

        /// No more requests will come: the thread ends after the last transfer.
        func close() {
            let wakeup = inbox.withLock { inbox in
                inbox.isClosing = true
                return inbox.wakeup
            }
            wakeup?.signal()
        }

        private func startThread() {
            // Not Foundation's, which does not tell when there is no memory for one.
            var attributes = pthread_attr_t()
            pthread_attr_init(&attributes)
            defer { pthread_attr_destroy(&attributes) }
            pthread_attr_setstacksize(&attributes, 512 << 10)
            pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
            let engine = Unmanaged.passRetained(self)
            var thread = pthread_t()
            let problem = pthread_create(
                &thread, &attributes,
                { context in
                    if let context { Unmanaged<CurlEngine>.fromOpaque(context).takeRetainedValue().runThread() }
                    return nil
                }, engine.toOpaque())
            guard problem != 0 else { return }
            engine.release()
            refuseAll(problem)
        }

        private func runThread() {
            convoy_prepare_thread("convoy.curl")
            // It takes some descriptors; by now others may have given theirs back.
            do throws(POSIXError) { run(try CurlLoop(options)) } catch { refuseAll(error.code.rawValue) }
        }

        // MARK: On the thread

        private func run(_ loop: CurlLoop) {
            var hasSleptIdle = false
            while let transfers = take(for: loop, hasSleptIdle) {
                loop.turn(transfers)
                let sleeps = inbox.withLock { inbox in
                    inbox.isAwake =
                        !inbox.transfers.isEmpty || loop.looksAgain || (inbox.isClosing && loop.isIdle)
                    return !inbox.isAwake
                }
                hasSleptIdle = loop.wait(sleeps: sleeps)
            }
            // Before the loop closes its connections.
            convoy_end_thread()
        }

        /// What has come in; nil when the thread is to end.
        private func take(for loop: CurlLoop, _ hasSleptIdle: Bool) -> [CurlTransfer]? {
            inbox.withLock { inbox in
                let ends = inbox.transfers.isEmpty && loop.isIdle && (hasSleptIdle || inbox.isClosing)
                // From here on a new request starts another thread, with a loop of its own.
                inbox.wakeup = ends ? nil : loop.sockets.wakeup
                inbox.isAwake = !ends
                if ends { forkCount.store(-1, ordering: .relaxed) }
                defer { inbox.transfers = [] }
                return ends ? nil : inbox.transfers
            }
        }

        /// Without a thread or a multi handle nothing can be sent.
        private func refuseAll(_ problem: Int32) {
            let transfers = inbox.withLock { inbox in
                forkCount.store(-1, ordering: .relaxed)
                defer { (inbox.transfers, inbox.isAwake) = ([], false) }
                return inbox.transfers
            }
            for transfer in transfers { transfer.refuse(problem) }
        }
    }
#endif
