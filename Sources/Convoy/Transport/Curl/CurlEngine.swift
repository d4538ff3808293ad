// Passes requests to the thread that moves their bytes.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Synchronization

    /// A thread that runs libcurl, and the interface to it for all other threads.
    ///
    /// The thread starts with the first request. After ``ConnectionOptions/idleConnectionTime`` without work the thread
    /// closes its connections and ends. If all transports with its options have been released, the thread ends as soon
    /// as it has no work. The thread never runs user code and never waits for a disk.
    final class CurlEngine: Sendable {
        private struct Inbox {
            var transfers: [CurlTransfer] = []
            /// Whether the thread will check the inbox before it sleeps.
            var isAwake = false
            /// Wakes the thread; nil without a thread, or before the thread can be woken.
            var wakeup: Wakeup?
            var isClosing = false
        }

        private let inbox = Locked(Inbox())
        /// The result of `convoy_fork_count()` when the thread was started; -1 without a thread.
        ///
        /// ``isOfAnotherProcess`` compares it with the current result.
        private let forkCount = Atomic<Int32>(-1)
        /// The number of transfers of this engine that exist, by which ``CurlEngines`` chooses an engine.
        let tasks = Atomic(0)
        let options: ConnectionOptions

        init(_ options: ConnectionOptions) { self.options = options }

        // MARK: From any thread

        /// Changes the desired state of a transfer and makes the thread check it.
        func look(
            at transfer: CurlTransfer, adding new: DesiredTransferState, removing old: DesiredTransferState = []
        ) {
            let before = transfer.changeDesired(adding: new.union(.queued), removing: old)
            guard !before.contains(.queued) else { return }
            let (startsThread, wakeup): (Bool, Wakeup?) = inbox.withLock { inbox in
                inbox.transfers.append(transfer)
                guard !inbox.isAwake else { return (false, nil) }
                inbox.isAwake = true
                if inbox.wakeup == nil { forkCount.store(convoy_fork_count(), ordering: .relaxed) }
                return (inbox.wakeup == nil, inbox.wakeup)
            }
            // The signal is sent outside the lock, because the woken thread locks the inbox at once.
            wakeup?.signal()
            if startsThread { startThread() }
        }

        /// Whether this process was forked from the process that owns the thread, and therefore has no thread.
        var isOfAnotherProcess: Bool {
            let count = forkCount.load(ordering: .relaxed)
            return count != -1 && count != convoy_fork_count()
        }

        /// Ends the thread after its last transfer.
        ///
        /// Called when all transports of this engine have been released.
        func close() {
            let wakeup = inbox.withLock { inbox in
                inbox.isClosing = true
                return inbox.wakeup
            }
            wakeup?.signal()
        }

        private func startThread() {
            // Foundation's `Thread` is not used, because it does not report a failure to start.
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

        // MARK: On the engine's thread

        private func runThread() {
            convoy_prepare_thread("convoy.curl")
            let loop: CurlLoop
            do throws(POSIXError) {
                loop = try CurlLoop(options)
            } catch {
                // The error number is passed on. A later check could find descriptors that other code has released
                // meanwhile.
                return refuseAll(error.code.rawValue)
            }
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
            // While the process exits, this call does not return. So the loop's cleanup, which uses TLS, never runs
            // after OpenSSL's exit handler.
            convoy_end_thread()
            withExtendedLifetime(loop) {}
        }

        /// Removes and returns the new transfers in the inbox; nil if the thread ends now.
        private func take(for loop: CurlLoop, _ hasSleptIdle: Bool) -> [CurlTransfer]? {
            inbox.withLock { inbox in
                let ends = inbox.transfers.isEmpty && loop.isIdle && (hasSleptIdle || inbox.isClosing)
                // If this thread ends, the next request starts another thread with its own loop.
                inbox.wakeup = ends ? nil : loop.sockets.wakeup
                inbox.isAwake = !ends
                if ends { forkCount.store(-1, ordering: .relaxed) }
                defer { inbox.transfers = [] }
                return ends ? nil : inbox.transfers
            }
        }

        /// Fails all waiting transfers, because there is no thread, no multi handle or no descriptor for polling.
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
