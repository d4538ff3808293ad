// The loop of the thread that moves bytes: its transfers, its handles, its turns.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's, for every member.
    final class CurlLoop {
        private let multi: OpaquePointer
        let sockets: CurlSockets
        private let options: ConnectionOptions
        private var idleHandles: [CurlHandle] = []
        private(set) var active: [ObjectIdentifier: CurlTransfer] = [:]
        private var flushes: [CurlTransfer] = []
        private var continuing: [CurlTransfer] = []
        var sharing = SharedConnections()
        @exclusivity(unchecked) private(set) var now = ContinuousClock.now
        @exclusivity(unchecked) var lastProgress = ContinuousClock.now
        private var nextTimeCheck: ContinuousClock.Instant?
        /// When all sockets are checked next, in case libcurl has missed an event or dropped a timer.
        private var nextPlainLook = ContinuousClock.now
        /// The number of active transfers for which libcurl may buffer bytes; above 0, the loop polls.
        private var polledCount = 0
        /// How many polls in a row found no event; determines the next sleep.
        private var quietLooks = 0
        /// How many polls in a row found events after a turn in which no transfer made progress.
        private var vainLooks = 0
        /// Whether the next turn begins without sleeping, and then checks all sockets; perhaps this turn already does.
        var looksAgain = false
        private var looksAtAll = false
        /// Whether the wait before this turn used epoll, which watches all sockets.
        private var hasWatched = false

        // The maximum sleeps of successive polls without events are 1, 4, 16, 64, 256 and 1,024 milliseconds. A stream
        // that reads from a shared connection also reads the bytes of other streams, and libcurl sets a timer for each
        // of those streams. Up to 8.14, libcurl drops the timer if another request begins in the same turn. The bytes
        // then wait for any other timer, up to 30 seconds. 8.15 keeps a list of these streams (commit 779937f840).
        // libcurl has read such bytes with the last events, so the first sleeps after events are short.
        private var longestLook: Duration { .milliseconds(1 << min(2 * quietLooks, 10)) }

        private static let mostKept = 256
        private let keptLimit: Int
        private var connectionLimit = -mostKept

        init(_ options: ConnectionOptions) throws(POSIXError) {
            sockets = try CurlSockets()
            errno = 0
            guard let multi = curl_multi_init() else {
                // Newer versions of libcurl open descriptors here, so `errno` may report that none is free.
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .ENOMEM)
            }
            self.multi = multi
            sockets.watch(multi)
            self.options = options
            // An eighth of the free descriptors, from 2 to 256. The limit is low, because libcurl closes an idle
            // connection only for a new request.
            keptLimit = max(2, min(Self.mostKept, FileDescriptors.freeCount / 8))
        }

        deinit {
            idleHandles = []
            curl_multi_cleanup(multi)
        }

        var isIdle: Bool { active.isEmpty }

        /// Up to 8.14 libcurl loses timers of shared connections; TLS and proxies buffer bytes without a system event.
        private var isPolling: Bool { polledCount > 0 || sockets.hasFailed }

        func turn(_ transfers: [CurlTransfer]) {
            looksAtAll = looksAtAll || looksAgain
            looksAgain = false
            now = .now
            if now >= nextPlainLook { (looksAtAll, nextPlainLook) = (true, now + .seconds(1)) }
            if !transfers.isEmpty || !continuing.isEmpty { quietLooks = 0 }
            for transfer in transfers { transfer.update(in: self) }
            var due: [CurlTransfer] = []
            swap(&due, &continuing)
            for transfer in due { transfer.continueInThisTurn() }
            // Above this number of connections, libcurl closes the oldest idle one after each request. If few
            // descriptors were free at the start, the limit does not grow with the active transfers.
            let limit = keptLimit + (keptLimit < Self.mostKept ? 0 : active.count)
            if abs(limit - connectionLimit) > Self.mostKept / 8 {
                connectionLimit = limit
                convoy_multi_set_max_connects(multi, limit)
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
            // The next requests are sent by now, so the woken threads take no time from them.
            WakeUps.performPostponed()
            takeMessages()
            checkTimes()
            // Polling has just stopped. The next turn checks all sockets, so that libcurl reports the events to watch.
            if looksAtAll, !isPolling { looksAgain = true }
        }

        // True if there was no work for the complete idle time. Without `sleeps`, this only checks.
        func wait(sleeps: Bool) -> Bool {
            hasWatched = !isPolling
            guard sleeps else {
                if hasWatched { _ = sockets.wait(milliseconds: 0) }
                return false
            }
            WakeUps.performPostponed()
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
            } else if !isIdle {
                sleep = min(sleep, longestLook)
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
            vainLooks = ready > 0 && lastProgress != now ? vainLooks + 1 : 0
            // If HTTP/2's flow control blocks a body, libcurl waits until the socket is writable, which it always is.
            let stalled = (ContinuousClock.now - lastProgress) / .milliseconds(1)
            guard vainLooks > 8, stalled > 2, active.values.contains(where: { $0.sendsBody && $0.place.stream != nil })
            else { return }
            var wakeup = pollfd(fd: sockets.wakeup.descriptor, events: Int16(POLLIN), revents: 0)
            _ = Foundation.poll(&wakeup, 1, Int32(min(stalled / 8, 10).rounded(.up)))
        }

        private func takeMessages() {
            var remaining: Int32 = 0
            var message = curl_multi_info_read(multi, &remaining)
            var count = 0
            while let done = message?.pointee {
                // CURLMSG_DONE (1) is the only kind. `CurlTransfer.end(_:)` may free the message.
                if done.msg == 1, let easy = done.easy_handle {
                    quietLooks = 0
                    let context = convoy_get_pointer(easy, CURLINFO_PRIVATE)
                    CurlHandle.transfer(of: context)?.end(done.data.result)
                }
                count += 1
                if count.isMultiple(of: 16) { WakeUps.performPostponed() }
                message = curl_multi_info_read(multi, &remaining)
            }
        }

        private func checkTimes() {
            guard let due = nextTimeCheck, due <= now else { return }
            var next: ContinuousClock.Instant?
            for transfer in active.values {  // A copy, because a transfer that has timed out leaves the list.
                guard let time = transfer.checkTime(now) else { continue }
                next = next.map { min($0, time) } ?? time
            }
            // Checks are at least two milliseconds apart, because each check visits all transfers.
            nextTimeCheck = next.map { max($0, now + .milliseconds(2)) }
        }

        // MARK: Called by transfers

        func takeHandle() -> CurlHandle? {
            if let handle = idleHandles.popLast() { return handle }
            let handle = try? CurlHandle(options)
            if let handle { sockets.attach(to: handle) }
            return handle
        }

        func add(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            active[ObjectIdentifier(transfer)] = transfer
            if transfer.isPolled { polledCount += 1 }
            checkTimes(after: transfer.idleCheckInterval)
            if transfer.waitsForConnections, !sharing[transfer].mayBegin(transfer) { return park(transfer) }
            return curl_multi_add_handle(multi, handle.easy) == 0
        }

        /// If the transfer is not complete, libcurl closes its HTTP/1.1 connection.
        func remove(_ transfer: CurlTransfer, _ handle: CurlHandle) {
            curl_multi_remove_handle(multi, handle.easy)
            if transfer.isShareable { transfer.leaveConnection() }
            handle.transfer = nil
            // A handle retains its last system error, which a later failure would report. Such a handle is not reused.
            if !handle.isWorn, idleHandles.count < 64, handle.number(CURLINFO_OS_ERRNO) == 0 {
                idleHandles.append(handle)
            }
            if active.removeValue(forKey: ObjectIdentifier(transfer)) != nil, transfer.isPolled { polledCount -= 1 }
        }

        func takeBack(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            curl_multi_remove_handle(multi, handle.easy)
            return park(transfer)
        }

        private func park(_ transfer: CurlTransfer) -> Bool {
            guard sharing[transfer].wait(transfer) else { return false }
            transfer.place.isParked = true
            if let timeLeft = transfer.timeLeft { checkTimes(after: timeLeft) }
            return true
        }

        func checkTimes(after time: Duration) {
            let due = now + time
            if let nextTimeCheck, nextTimeCheck <= due { return }
            nextTimeCheck = due
        }

        func continueLater(_ transfers: [CurlTransfer]) {
            guard !transfers.isEmpty else { return }
            continuing += transfers
            looksAgain = true
        }

        func isQuiet(_ socket: Int32) -> Bool { hasWatched && sockets.isQuiet(socket) }

        func flushLater(_ transfer: CurlTransfer) { flushes.append(transfer) }
    }

    /// File data in the system's page cache is copied straight to libcurl's buffer instead.
    final class ReadAhead: UploadSource, Sendable {
        private struct State {
            /// What was read ahead, in order, without the bytes that were copied.
            var chunks: [Data] = []
            var byteCount = 0
            var hasBeenTakenFrom = false
            var isReading = false
            /// What follows the chunks: the end, as zero bytes, or a failure.
            var end: Result<Int, RequestError>?
            /// Whether `take` found no data, so that `isReady` must be called when there is some.
            var isWanted = false
            var reading: BodyReading?

            var readsOn: Bool { end == nil && (chunks.count < 4 || byteCount < 64 << 10) }

            var direct: (any BlockingReader)? {
                guard !isReading, case .blocking(let reader)? = reading, reader.readsWithoutWaiting else { return nil }
                return reader
            }

            // Copies as much as fits, because each send costs a system call. Also returns the chunks that were copied to
            // their ends. They are released outside the lock, because that may run other code.
            mutating func copy(into buffer: UnsafeMutableRawBufferPointer) -> (count: Int, ended: ArraySlice<Data>) {
                var (count, index) = (0, 0)
                while count < buffer.count, index < chunks.count {
                    let piece = chunks[index].prefix(buffer.count - count)
                    piece.copyBytes(to: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
                    count += piece.count
                    chunks[index] = chunks[index].dropFirst(piece.count)
                    if chunks[index].isEmpty { index += 1 }
                }
                let ended = chunks[..<index]
                chunks.removeFirst(index)
                byteCount -= count
                return (count, ended)
            }
        }

        private let body: RequestBody
        private let queue = DispatchQueue(label: "convoy.upload")
        private let state = Locked(State())
        private let isReady: @Sendable () -> Void

        init(_ body: RequestBody, isReady: @escaping @Sendable () -> Void) {
            self.body = body
            self.isReady = isReady
            readOn()
        }

        deinit {
            // The queue releases `reading`: closing a stream or cancelling a sequence runs user code, which the engine's
            // thread must not.
            queue.async { [state] in
                let reading = state.withLock { state in
                    defer { state.reading = nil }
                    return state.reading
                }
                withExtendedLifetime(reading) {}
            }
        }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? {
            var (direct, ended): ((any BlockingReader)?, ArraySlice<Data>) = (nil, [])
            var result = state.withLock { state -> Result<Int, RequestError>? in
                let count: Int
                (count, ended) = state.copy(into: buffer)
                if count > 0 {
                    state.hasBeenTakenFrom = true
                    return .success(count)
                }
                if let end = state.end { return end }
                direct = state.direct
                if direct == nil { state.isWanted = true } else { state.isReading = true }
                return nil
            }
            if let direct {
                result = direct.readWithoutWaiting(into: buffer)
                state.withLock { state in
                    state.isReading = false
                    switch result {
                    case .success(1...)?: state.hasBeenTakenFrom = true
                    case nil: state.isWanted = true  // The bytes are not in memory, so the queue reads them.
                    default: state.end = result
                    }
                }
            }
            readOn()
            return withExtendedLifetime(ended) { result }
        }

        func rewound() -> (any UploadSource)? {
            // If no byte was copied yet, the chunks that were read ahead are still valid.
            guard state.withLock({ $0.hasBeenTakenFrom }) else { return self }
            return body.canRepeat ? ReadAhead(body, isReady: isReady) : nil
        }

        private func readOn() {
            let reads = state.withLock { state in
                guard !state.isReading else { return false }
                // Nothing is read ahead while the engine's thread can read without waiting. Otherwise several chunks
                // are read, so that the disk works while they are sent.
                state.isReading = state.readsOn && (state.direct == nil || state.isWanted)
                return state.isReading
            }
            // `self` is weak, because no more chunks are needed once the transfer has released the body.
            if reads { queue.async { [weak self] in while self?.read() == true {} } }
        }

        /// True if the caller must call again.
        private func read() -> Bool {
            do throws(RequestError) {
                let known = state.withLock { $0.reading }
                let reading = if let known { known } else { try body.begin() }
                if known == nil { state.withLock { $0.reading = reading } }
                switch reading {
                case .blocking(let reader): return note(Self.chunk(of: reader))
                case .waiting(let reader):
                    reader.read { [weak self] in self?.note($0) ?? false }
                    return false
                }
            } catch {
                return note(.failure(error))
            }
        }

        /// Returns whether to read the next chunk now.
        private func note(_ result: Result<Data?, RequestError>) -> Bool {
            let (readsOn, calls) = state.withLock { state in
                switch result {
                case .success(let chunk?):
                    state.chunks.append(chunk)
                    state.byteCount += chunk.count
                case .success(nil): state.end = .success(0)
                case .failure(let error): state.end = .failure(error)
                }
                state.isReading = state.readsOn
                defer { state.isWanted = false }
                return (state.isReading, state.isWanted)
            }
            if calls { isReady() }
            return readsOn
        }

        private static func chunk(of reader: any BlockingReader) -> Result<Data?, RequestError> {
            let buffer = LargeBuffers.take()
            let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: LargeBuffers.byteCount)
            let result = reader.read(into: bytes)
            guard case .success(let count) = result, count > 0 else {
                LargeBuffers.giveBack(buffer)
                return result.map { _ in nil }
            }
            return .success(LargeBuffers.data(buffer, count: count))
        }
    }
#endif
