// The thread that moves bytes: its transfers, its handles, its turns.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Drives the transfers of one libcurl multi handle, for as long as its thread lives.
    ///
    /// - Thread: its own, every member.
    final class CurlLoop {
        let multi: OpaquePointer
        private let options: ConnectionOptions
        private let trustFile: String?
        private var idleHandles: [CurlHandle] = []
        var headerLists = HeaderListCache()
        private var active: [CurlTransfer] = []
        private var flushes: [CurlTransfer] = []
        private var kept = KeptConnections()
        /// Those that decode on in the next turn.
        private var shares: [CurlTransfer] = []
        private var nextTimeCheck: ContinuousClock.Instant?
        /// The connections that requests share.
        var sharing = SharedConnections()
        /// Those that may try again to get a connection.
        private var released: [CurlTransfer] = []
        /// How many of the active ones may share a connection.
        private var shareableCount = 0
        /// How often nothing was there since something was.
        private var quietLooks = 0
        /// Whether the next turn begins without sleeping.
        private(set) var looksAgain = false
        /// The time of this turn.
        private(set) var now = ContinuousClock.now

        /// How many milliseconds to sleep at most, after each look that finds nothing, while requests may share connections.
        ///
        /// A stream that reads from a connection takes the bytes of others too. libcurl then sets a timer for each of them,
        /// and up to 8.14 it drops the timer when another request begins in the same turn: the bytes wait until any other
        /// timer, 30 seconds. 8.15 has a list of such streams (its commit 779937f840); of what else may be forgotten
        /// nothing is known. Such bytes have come a moment before: so one looks soon, and then ever later.
        private static let looks: [Int32] = [1, 4, 16, 64, 256, 1_000]

        /// Handles that are kept for the next requests.
        private static let idleHandleLimit = 64

        /// Makes a loop.
        ///
        /// - Throws: what there is too little of: memory, or file descriptors.
        init(_ options: ConnectionOptions) throws(POSIXError) {
            errno = 0
            guard let multi = curl_multi_init() else {
                // Newer versions make none without descriptors, of which others may be given back by the time one looks.
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .ENOMEM)
            }
            // Without descriptors there is one that cannot be woken.
            guard convoy_multi_wakeup(multi) == 0 else {
                curl_multi_cleanup(multi)
                throw POSIXError(.EMFILE)
            }
            self.multi = multi
            self.options = options
            trustFile = options.trustFile
            // By default as many as four times the transfers of the moment. Only a new request closes one of them, so that
            // few are kept where descriptors are few: a quarter of what is free, with two engines.
            convoy_multi_set_long(
                multi, CurlOption.multiMaxConnects, max(2, min(256, FileDescriptors.freeCount / 8)))
        }

        deinit {
            idleHandles = []
            curl_multi_cleanup(multi)
        }

        var isIdle: Bool { active.isEmpty }

        /// One round: what owners want, what the network brings, what has taken too long.
        func turn(_ transfers: [CurlTransfer]) {
            looksAgain = false
            now = .now
            if !transfers.isEmpty || !released.isEmpty { quietLooks = 0 }
            for transfer in transfers { transfer.update(in: self) }
            let released = released
            self.released = []
            for transfer in released { transfer.tryAgain() }
            let shares = shares
            self.shares = []
            for transfer in shares { transfer.takeNextShare() }
            var running: Int32 = 0
            curl_multi_perform(multi, &running)
            while let transfer = flushes.popLast() { transfer.flush() }
            takeMessages()
            checkTimes()
        }

        /// Waits for the network or for a call; true when there was no work for the whole idle time.
        func sleep() -> Bool {
            // At most a day: an idle timeout may be as long as a number can say.
            let idleTime = min(options.idleConnectionTime, .seconds(86_400))
            let time = isIdle ? idleTime : min(nextTimeCheck.map { $0 - .now } ?? .seconds(60), .seconds(86_400))
            var milliseconds = Int32(
                clamping: Int64((max(.zero, time) / .milliseconds(1)).rounded(.up)))
            if shareableCount > 0 {
                milliseconds = min(milliseconds, Self.looks[min(quietLooks, Self.looks.count - 1)])
            }
            let start = ContinuousClock.now
            // What cannot wait must not spin.
            var ready: Int32 = 0
            if convoy_multi_poll(multi, milliseconds, &ready) != 0 { Thread.sleep(forTimeInterval: 0.01) }
            quietLooks = ready > 0 ? 0 : quietLooks + 1
            return isIdle && ContinuousClock.now - start >= time
        }

        private func takeMessages() {
            var remaining: Int32 = 0
            while let message = curl_multi_info_read(multi, &remaining) {
                // CURLMSG_DONE, the only one there is. Read before the handle is removed, which frees the message.
                guard message.pointee.msg == 1, let easy = message.pointee.easy_handle else { continue }
                let code = message.pointee.data.result
                var context: UnsafeMutableRawPointer?
                convoy_get_pointer(easy, CurlInfo.privatePointer, &context)
                guard let context else { continue }
                quietLooks = 0
                Unmanaged<CurlHandle>.fromOpaque(context).takeUnretainedValue().transfer?.end(code)
            }
        }

        private func checkTimes() {
            guard let due = nextTimeCheck, due <= now else { return }
            var next: ContinuousClock.Instant?
            // A copy: who has waited too long leaves the list.
            for transfer in active {
                guard let time = transfer.checkTime(now) else { continue }
                next = next.map { min($0, time) } ?? time
            }
            // Not for each one alone: looking at all of them costs something.
            nextTimeCheck = next.map { max($0, now + .milliseconds(2)) }
        }

        // MARK: For transfers

        func takeHandle() -> CurlHandle? {
            idleHandles.popLast() ?? (try? CurlHandle(options, trustFile: trustFile))
        }

        /// Gives a transfer's handle to libcurl, now or when it need no longer wait for another; false when libcurl does not
        /// take it.
        func add(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            transfer.index = active.count
            active.append(transfer)
            if transfer.isShareable { shareableCount += 1 }
            checkTimes(after: transfer.request.idleTimeout)
            if transfer.waitsForConnections, !sharing.mayBegin(transfer) { return park(transfer) }
            return curl_multi_add_handle(multi, handle.easy) == 0
        }

        /// Takes the handle back; a connection in the middle of a transfer is closed by that.
        func remove(_ transfer: CurlTransfer, _ handle: CurlHandle) {
            curl_multi_remove_handle(multi, handle.easy)
            transfer.leaveConnection()
            handle.transfer = nil
            // libcurl keeps the system's last error in the handle, where the next failure would find it.
            if CurlLibrary.reusesHandles, !handle.isWorn, idleHandles.count < Self.idleHandleLimit,
                handle.long(CurlInfo.osErrno) == 0
            {
                idleHandles.append(handle)
            }
            guard let index = transfer.index else { return }
            transfer.index = nil
            if transfer.isShareable { shareableCount -= 1 }
            let last = active.removeLast()
            guard index < active.count else { return }
            active[index] = last
            last.index = index
        }

        /// Takes a transfer's handle back, to try again when another's connection is there; false when there is none to
        /// wait for.
        func takeBack(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            curl_multi_remove_handle(multi, handle.easy)
            return park(transfer)
        }

        private func park(_ transfer: CurlTransfer) -> Bool {
            guard sharing.wait(transfer) else { return false }
            transfer.place.isParked = true
            if let timeLeft = transfer.timeLeft { checkTimes(after: timeLeft) }
            return true
        }

        private func checkTimes(after time: Duration) {
            let due = now + time
            nextTimeCheck = nextTimeCheck.map { min($0, due) } ?? due
        }

        /// Has transfers try again in the next turn.
        func release(_ transfers: [CurlTransfer]) {
            guard !transfers.isEmpty else { return }
            released += transfers
            looksAgain = true
        }

        func noteConnection(of handle: CurlHandle) {
            if let connection = handle.connection { kept.note(connection, socket: handle.activeSocket) }
        }

        func isUnusable(_ connection: KeptConnections.Key) -> Bool { kept.isUnusable(connection) }

        /// Has a transfer decode on in the next turn.
        func giveNextShare(to transfer: CurlTransfer) {
            shares.append(transfer)
            looksAgain = true
        }

        func flushLater(_ transfer: CurlTransfer) { flushes.append(transfer) }

        /// Has the next turn begin without sleeping.
        func lookAgain() { looksAgain = true }
    }
#endif
