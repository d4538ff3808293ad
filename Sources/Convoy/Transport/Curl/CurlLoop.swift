// The loop of the thread that moves bytes: its transfers, its handles, its turns.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Drives the transfers of one libcurl multi handle, as long as its thread lives.
    ///
    /// - Thread: the engine's, for every member.
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
        @exclusivity(unchecked) var kept = KeptConnections()
        @exclusivity(unchecked) private var nextTimeCheck: ContinuousClock.Instant?
        /// The connections that requests share.
        @exclusivity(unchecked) var sharing = SharedConnections()
        /// The transfers that continue in the next turn.
        @exclusivity(unchecked) private var continuing: [CurlTransfer] = []
        /// The number of active transfers for which libcurl may buffer bytes; above 0, the loop polls.
        @exclusivity(unchecked) private var polledCount = 0
        /// How many active transfers may share a connection.
        @exclusivity(unchecked) private var shareableCount = 0
        /// How many polls in a row found no event; selects the next sleep in `looks`.
        @exclusivity(unchecked) private var quietLooks = 0
        /// How many polls in a row found events after a turn in which no transfer made progress.
        @exclusivity(unchecked) private var vainLooks = 0
        /// The turn in which a transfer last sent or received, and its time.
        @exclusivity(unchecked) private var lastProgress: (turn: UInt, time: ContinuousClock.Instant) = (0, .now)
        /// Whether the next turn begins without sleeping, and then checks all sockets; perhaps this turn already does.
        @exclusivity(unchecked) var looksAgain = false
        /// Whether the next turn checks all sockets.
        @exclusivity(unchecked) private var looksAtAll = false
        /// Whether the wait before this turn used epoll, which watches all sockets.
        @exclusivity(unchecked) private var hasWatched = false
        /// The time of this turn.
        @exclusivity(unchecked) private(set) var now = ContinuousClock.now
        @exclusivity(unchecked) private(set) var turnCount: UInt = 0

        /// The maximum sleeps in milliseconds of successive polls without events, while requests may share connections.
        ///
        /// A stream that reads from a connection also reads the bytes of other streams, and libcurl sets a timer for
        /// each of those streams. Up to 8.14, libcurl drops the timer if another request begins in the same turn.
        /// The bytes then wait for any other timer, up to 30 seconds. 8.15 keeps a list of these streams (commit
        /// 779937f840). libcurl has read such bytes with the last events, so the first sleeps after events are short.
        private static let looks = [1, 4, 16, 64, 256, 1_000]

        /// The interval at which all sockets are checked, in case libcurl has missed an event or dropped a timer.
        private static let plainLook = Duration.seconds(1)
        @exclusivity(unchecked) private var nextPlainLook = ContinuousClock.now

        /// The maximum number of idle connections that stay open for later requests.
        private static let mostKept = 256
        private let keptLimit: Int
        /// The limit of open connections that was last passed to libcurl.
        private var connectionLimit = -mostKept

        /// The number of ended transfers after which the loop performs the postponed wake-ups of other threads.
        private static let endsPerWakeUp = 16

        /// The maximum number of handles stored for later requests.
        private static let idleHandleLimit = 64

        /// Makes a loop.
        ///
        /// - Throws: the system's error if memory or file descriptors are exhausted.
        init(_ options: ConnectionOptions) throws(POSIXError) {
            errno = 0
            guard let multi = curl_multi_init() else {
                // Newer versions of libcurl open descriptors here, so `errno` may report that none is free.
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
            // An eighth of the free descriptors, from 2 to 256. The limit is low, because libcurl closes an idle
            // connection only for a new request.
            keptLimit = max(2, min(Self.mostKept, FileDescriptors.freeCount / 8))
        }

        deinit {
            idleHandles = []
            curl_multi_cleanup(multi)
        }

        var isIdle: Bool { active.isEmpty }

        /// Whether libcurl checks every socket in each turn.
        ///
        /// Up to 8.14 libcurl loses timers of shared connections. TLS and proxies buffer bytes without a system event.
        private var isPolling: Bool { polledCount > 0 || sockets.hasFailed }

        /// Runs one turn: requests of owners, network events, timeouts.
        func turn(_ transfers: [CurlTransfer]) {
            looksAtAll = looksAtAll || looksAgain
            looksAgain = false
            now = .now
            turnCount += 1
            if now >= nextPlainLook { (looksAtAll, nextPlainLook) = (true, now + Self.plainLook) }
            if !transfers.isEmpty || !continuing.isEmpty { quietLooks = 0 }
            for transfer in transfers { transfer.update(in: self) }
            let continuing = continuing
            self.continuing = []
            for transfer in continuing { transfer.continueInThisTurn() }
            // Above this number of connections, libcurl closes the oldest idle one after each request. If few
            // descriptors were free at the start, the limit does not grow with the active transfers.
            let limit = keptLimit + (keptLimit < Self.mostKept ? 0 : active.count)
            if abs(limit - connectionLimit) > Self.mostKept / 8 {
                connectionLimit = limit
                convoy_multi_set_long(multi, CurlOption.multiMaxConnects, limit)
            }
            var running: Int32 = 0
            if isPolling {
                curl_multi_perform(multi, &running)
                // `curl_multi_perform` does not report the events that its sockets wait for.
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
            // Polling has just stopped. The next turn checks all sockets, so that libcurl reports the events to watch.
            if looksAtAll, !isPolling { looksAgain = true }
        }

        /// Waits for the network or for a wake-up; true if there was no work for the complete idle time.
        ///
        /// - Parameter sleeps: false to check without waiting, because there is work.
        func wait(sleeps: Bool) -> Bool {
            hasWatched = !isPolling
            guard sleeps else {
                if hasWatched { _ = sockets.wait(milliseconds: 0) }
                return false
            }
            let start = ContinuousClock.now
            let wanted = isIdle ? options.idleConnectionTime : nextTimeCheck.map { $0 - start } ?? .seconds(60)
            // The wait is limited to a day, because the idle time may have any length.
            let time = max(.zero, min(wanted, .seconds(86_400)))
            var sleep = time
            if hasWatched {
                var due = -1
                curl_multi_timeout(multi, &due)
                // The sleep exceeds libcurl's timeout by two milliseconds, because libcurl checks the timeout only
                // once and with another clock.
                if due >= 0 { sleep = min(sleep, .milliseconds(due > 0 ? due + 2 : 0)) }
                if !isIdle { sleep = min(sleep, max(.zero, nextPlainLook - start)) }
            } else if shareableCount > 0 {
                sleep = min(sleep, .milliseconds(Self.looks[min(quietLooks, Self.looks.count - 1)]))
            }
            let milliseconds = Int32(clamping: Int64((sleep / .milliseconds(1)).rounded(.up)))
            if hasWatched { _ = sockets.wait(milliseconds: milliseconds) } else { poll(milliseconds) }
            return isIdle && ContinuousClock.now - start >= time
        }

        private func poll(_ milliseconds: Int32) {
            // If the wait fails, the thread sleeps instead of spinning.
            var ready: Int32 = 0
            if convoy_multi_poll(multi, sockets.wakeup.descriptor, milliseconds, &ready) != 0 {
                Thread.sleep(forTimeInterval: 0.01)
            }
            quietLooks = ready > 0 ? 0 : quietLooks + 1
            vainLooks = ready > 0 && lastProgress.turn != turnCount ? vainLooks + 1 : 0
            // If HTTP/2's flow control blocks a body, libcurl waits until the socket is writable, which it always is.
            let stalled = (ContinuousClock.now - lastProgress.time) / .milliseconds(1)
            guard vainLooks > 8, stalled > 2, active.contains(where: { $0.sendsBody && $0.place.stream != nil }) else {
                return
            }
            var wakeup = pollfd(fd: sockets.wakeup.descriptor, events: Int16(POLLIN), revents: 0)
            _ = Foundation.poll(&wakeup, 1, Int32(min(stalled / 8, 10).rounded(.up)))
        }

        func noteProgress() { lastProgress = (turnCount, now) }

        /// Ends the transfers that libcurl has finished.
        private func takeMessages() {
            var remaining: Int32 = 0
            guard var message = curl_multi_info_read(multi, &remaining) else { return }
            WakeUps.postponing { wakeUps in
                var count = 0
                while true {
                    end(message)
                    count += 1
                    if count.isMultiple(of: Self.endsPerWakeUp) { wakeUps.performAll() }
                    guard let next = curl_multi_info_read(multi, &remaining) else { return }
                    message = next
                }
            }
        }

        private func end(_ message: UnsafeMutablePointer<CURLMsg>) {
            // CURLMSG_DONE (1) is the only kind. The result is read first: `CurlTransfer.end(_:)` may free the message.
            guard message.pointee.msg == 1, let easy = message.pointee.easy_handle else { return }
            let code = message.pointee.data.result
            var context: UnsafeMutableRawPointer?
            convoy_get_pointer(easy, CurlInfo.privatePointer, &context)
            quietLooks = 0
            CurlHandle.transfer(of: context)?.end(code)
        }

        private func checkTimes() {
            guard let due = nextTimeCheck, due <= now else { return }
            var next: ContinuousClock.Instant?
            for transfer in active {  // A copy, because a transfer that has timed out leaves the list.
                guard let time = transfer.checkTime(now) else { continue }
                next = next.map { min($0, time) } ?? time
            }
            // Checks are at least two milliseconds apart, because each check visits all transfers.
            nextTimeCheck = next.map { max($0, now + .milliseconds(2)) }
        }

        // MARK: Called by transfers

        func takeHandle() -> CurlHandle? {
            if let handle = idleHandles.popLast() { return handle }
            let handle = try? CurlHandle(options, trustFile: trustFile)
            if let handle { sockets.attach(to: handle) }
            return handle
        }

        /// Adds a transfer's handle to libcurl, or parks the transfer to wait for another transfer's connection; false
        /// if libcurl rejects the handle.
        func add(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            transfer.index = active.count
            active.append(transfer)
            if transfer.isShareable { shareableCount += 1 }
            if transfer.isPolled { polledCount += 1 }
            checkTimes(after: transfer.idleCheckInterval)
            if transfer.waitsForConnections, !sharing.mayBegin(transfer) { return park(transfer) }
            return curl_multi_add_handle(multi, handle.easy) == 0
        }

        /// Removes a transfer and its handle.
        ///
        /// If the transfer is not complete, libcurl closes its HTTP/1.1 connection.
        func remove(_ transfer: CurlTransfer, _ handle: CurlHandle) {
            curl_multi_remove_handle(multi, handle.easy)
            if transfer.isShareable { transfer.leaveConnection() }
            handle.transfer = nil
            // A handle retains its last system error, which a later failure would report. Such a handle is not reused.
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

        /// Takes a handle back from libcurl and parks its transfer; false if no other transfer opens a connection.
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
            if let nextTimeCheck, nextTimeCheck <= due { return }
            nextTimeCheck = due
        }

        /// Makes transfers continue in the next turn: to decode, or to try again to get a connection.
        func continueLater(_ transfers: [CurlTransfer]) {
            guard !transfers.isEmpty else { return }
            continuing += transfers
            looksAgain = true
        }

        /// Whether nothing has arrived on the socket of an idle connection, as far as the last wait has shown.
        func isQuiet(_ socket: Int32) -> Bool { hasWatched && sockets.isQuiet(socket) }

        func flushLater(_ transfer: CurlTransfer) { flushes.append(transfer) }
    }
#endif
