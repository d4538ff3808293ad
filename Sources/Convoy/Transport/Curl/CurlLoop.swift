// The thread that moves bytes: its transfers, its handles, its turns.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Drives the transfers of one libcurl multi handle, for as long as its thread lives.
    ///
    /// - Thread: its own, every member.
    final class CurlLoop {
        private let multi: OpaquePointer
        let sockets: CurlSockets
        private let options: ConnectionOptions
        private let trustFile: String?
        @exclusivity(unchecked) private var idleHandles: [CurlHandle] = []
        @exclusivity(unchecked) var headerLists = HeaderListCache()
        let fieldLines = FieldLineCache()
        @exclusivity(unchecked) private(set) var active: [CurlTransfer] = []
        @exclusivity(unchecked) private var flushes: [CurlTransfer] = []
        @exclusivity(unchecked) private var kept = KeptConnections()
        /// Those that decode on in the next turn.
        @exclusivity(unchecked) private var shares: [CurlTransfer] = []
        @exclusivity(unchecked) private var nextTimeCheck: ContinuousClock.Instant?
        /// The connections that requests share.
        @exclusivity(unchecked) var sharing = SharedConnections()
        /// Those that may try again to get a connection.
        @exclusivity(unchecked) private var released: [CurlTransfer] = []
        /// How many of the active ones libcurl's events are not enough for.
        @exclusivity(unchecked) private var polledCount = 0
        /// How many of the active ones may share a connection.
        @exclusivity(unchecked) private var shareableCount = 0
        /// How often nothing was there since something was.
        @exclusivity(unchecked) private var quietLooks = 0
        /// Whether the next turn begins without sleeping, and this one, where that is still ahead, goes through all
        /// transfers.
        @exclusivity(unchecked) private(set) var looksAgain = false
        /// Whether the next turn goes through all transfers.
        @exclusivity(unchecked) private var looksAtAll = false
        /// Whether all sockets were watched just before this turn.
        @exclusivity(unchecked) private var hasWatched = false
        /// The time of this turn.
        @exclusivity(unchecked) private(set) var now = ContinuousClock.now
        /// How many turns there have been.
        @exclusivity(unchecked) private(set) var turnCount: UInt = 0

        /// How many milliseconds to sleep at most, after each look that finds nothing, while requests may share connections.
        ///
        /// A stream that reads from a connection takes the bytes of others too. libcurl then sets a timer for each of them,
        /// and up to 8.14 it drops the timer when another request begins in the same turn: the bytes wait until any other
        /// timer, 30 seconds. 8.15 has a list of such streams (its commit 779937f840); of what else may be forgotten
        /// nothing is known. Such bytes have come a moment before: so one looks soon, and then ever later.
        private static let looks: [Int32] = [1, 4, 16, 64, 256, 1_000]

        /// How often all transfers are looked at where none may: for an event that libcurl has missed, or a timer that it has
        /// dropped.
        private static let plainLook = Duration.seconds(1)
        @exclusivity(unchecked) private var nextPlainLook = ContinuousClock.now

        /// How many connections are kept for the next requests, at most.
        private static let mostKept = 256
        private let keptLimit: Int
        /// What libcurl has been told.
        private var connectionLimit = -mostKept

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
            do throws(POSIXError) {
                sockets = try CurlSockets(for: multi)
            } catch {
                curl_multi_cleanup(multi)
                throw error
            }
            self.multi = multi
            self.options = options
            trustFile = options.trustFile
            // A quarter of what is free, with two engines: only a new request closes one of them.
            keptLimit = max(2, min(Self.mostKept, FileDescriptors.freeCount / 8))
            setConnectionLimit()
        }

        /// libcurl's limit counts connections in use too: with more of them it would close each one after its request.
        private func setConnectionLimit() {
            // Where descriptors are few it stays.
            let limit = keptLimit + (keptLimit < Self.mostKept ? 0 : active.count)
            guard abs(limit - connectionLimit) > Self.mostKept / 8 else { return }
            connectionLimit = limit
            convoy_multi_set_long(multi, CurlOption.multiMaxConnects, limit)
        }

        deinit {
            idleHandles = []
            curl_multi_cleanup(multi)
        }

        var isIdle: Bool { active.isEmpty }

        /// Whether libcurl looks at every socket in each turn: where requests share connections, because up to 8.14 some of
        /// its timers get lost, and where TLS or a proxy holds back bytes of which the system's events tell nothing.
        private var isPolling: Bool { polledCount > 0 || sockets.hasFailed }

        /// One round: what owners want, what the network brings, what has taken too long.
        func turn(_ transfers: [CurlTransfer]) {
            looksAtAll = looksAtAll || looksAgain
            looksAgain = false
            now = .now
            turnCount += 1
            if now >= nextPlainLook { (looksAtAll, nextPlainLook) = (true, now + Self.plainLook) }
            if !transfers.isEmpty || !released.isEmpty { quietLooks = 0 }
            for transfer in transfers { transfer.update(in: self) }
            let released = released
            self.released = []
            for transfer in released { transfer.tryAgain() }
            let shares = shares
            self.shares = []
            for transfer in shares { transfer.takeNextShare() }
            setConnectionLimit()
            var running: Int32 = 0
            if isPolling {
                curl_multi_perform(multi, &running)
                // It does not say what its sockets wait for.
                looksAtAll = true
            } else if looksAtAll || looksAgain {
                curl_multi_socket_all(multi, &running)
                looksAtAll = false
            } else {
                sockets.act(multi)
            }
            while let transfer = flushes.popLast() { transfer.flush() }
            takeMessages()
            checkTimes()
            // From now on its events are waited for, once libcurl has said which.
            if looksAtAll, !isPolling { looksAgain = true }
        }

        /// Waits for the network or for a call; true when there was no work for the whole idle time.
        ///
        /// - Parameter sleeps: false to look only, because there is work.
        func wait(sleeps: Bool) -> Bool {
            guard sleeps else {
                hasWatched = !isPolling
                if hasWatched { _ = sockets.wait(milliseconds: 0) }
                return false
            }
            // At most a day: an idle timeout may be as long as a number can say.
            let idleTime = min(options.idleConnectionTime, .seconds(86_400))
            let time = isIdle ? idleTime : min(nextTimeCheck.map { $0 - .now } ?? .seconds(60), .seconds(86_400))
            let milliseconds = Int32(
                clamping: Int64((max(.zero, time) / .milliseconds(1)).rounded(.up)))
            let start = ContinuousClock.now
            hasWatched = !isPolling
            if isPolling { poll(milliseconds) } else { watch(milliseconds) }
            return isIdle && ContinuousClock.now - start >= time
        }

        private func poll(_ milliseconds: Int32) {
            var milliseconds = milliseconds
            if shareableCount > 0 {
                milliseconds = min(milliseconds, Self.looks[min(quietLooks, Self.looks.count - 1)])
            }
            // What cannot wait must not spin.
            var ready: Int32 = 0
            if convoy_multi_poll(multi, sockets.wakeup.descriptor, milliseconds, &ready) != 0 {
                Thread.sleep(forTimeInterval: 0.01)
            }
            quietLooks = ready > 0 ? 0 : quietLooks + 1
        }

        private func watch(_ milliseconds: Int32) {
            var (milliseconds, due) = (milliseconds, -1)
            curl_multi_timeout(multi, &due)
            // Up to two milliseconds late: libcurl asks a second clock whether the time is over, and does not ask again.
            if due >= 0 { milliseconds = min(milliseconds, Int32(clamping: due > 0 ? due + 2 : 0)) }
            if !isIdle {
                let untilLook = max(.zero, nextPlainLook - .now) / .milliseconds(1)
                milliseconds = min(milliseconds, Int32(clamping: Int64(untilLook.rounded(.up))))
            }
            _ = sockets.wait(milliseconds: milliseconds)
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
            // A copy: a transfer that has waited too long leaves the list.
            for transfer in active {
                guard let time = transfer.checkTime(now) else { continue }
                next = next.map { min($0, time) } ?? time
            }
            // Not for each one alone: looking at all of them costs something.
            nextTimeCheck = next.map { max($0, now + .milliseconds(2)) }
        }

        // MARK: For transfers

        func takeHandle() -> CurlHandle? {
            if let handle = idleHandles.popLast() { return handle }
            let handle = try? CurlHandle(options, trustFile: trustFile)
            if let handle { sockets.attach(to: handle) }
            return handle
        }

        /// Gives a transfer's handle to libcurl, now or when it need no longer wait for another; false when libcurl does not
        /// take it.
        func add(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            transfer.index = active.count
            active.append(transfer)
            if transfer.isShareable { shareableCount += 1 }
            if transfer.isPolled { polledCount += 1 }
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
            if !handle.isWorn, idleHandles.count < Self.idleHandleLimit, handle.long(CurlInfo.osErrno) == 0 {
                idleHandles.append(handle)
            }
            guard let index = transfer.index else { return }
            transfer.index = nil
            if transfer.isShareable { shareableCount -= 1 }
            if transfer.isPolled { polledCount -= 1 }
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

        func checkTimes(after time: Duration) {
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

        func isUnusable(_ connection: KeptConnections.Key) -> Bool {
            kept.isUnusable(connection) { hasWatched && sockets.isQuiet($0) }
        }

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
