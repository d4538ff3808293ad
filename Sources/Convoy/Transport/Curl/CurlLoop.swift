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
        private var idleHandles: [CurlHandle] = []
        private var active: [CurlTransfer] = []
        private var flushes: [CurlTransfer] = []
        private var kept = KeptConnections()
        /// Those that decode on in the next turn.
        private var shares: [CurlTransfer] = []
        private var nextIdleCheck: ContinuousClock.Instant?
        /// Whether the next turn begins without sleeping.
        private(set) var looksAgain = false
        /// The time of this turn.
        private(set) var now = ContinuousClock.now

        /// Handles that are kept for the next requests.
        private static let idleHandleLimit = 64

        /// Makes a loop; nil without memory or file descriptors.
        init?(_ options: ConnectionOptions) {
            guard let multi = curl_multi_init() else { return nil }
            // Without descriptors there is one that cannot be woken.
            guard convoy_multi_wakeup(multi) == 0 else {
                curl_multi_cleanup(multi)
                return nil
            }
            self.multi = multi
            self.options = options
            // By default as many as four times the transfers of the moment.
            convoy_multi_set_long(multi, CurlOption.multiMaxConnects, 256)
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
            for transfer in transfers { transfer.update(in: self) }
            let shares = shares
            self.shares = []
            for transfer in shares { transfer.takeNextShare() }
            var running: Int32 = 0
            curl_multi_perform(multi, &running)
            while let transfer = flushes.popLast() { transfer.flush() }
            takeMessages()
            checkIdle()
        }

        /// Waits for the network or for a call; true when there was no work for the whole idle time.
        func sleep() -> Bool {
            // At most a day: an idle timeout may be as long as a number can say.
            let idleTime = min(options.idleConnectionTime, .seconds(86_400))
            let time = isIdle ? idleTime : min(nextIdleCheck.map { $0 - .now } ?? .seconds(60), .seconds(86_400))
            let milliseconds = Int32(
                clamping: Int64((max(.zero, time) / .milliseconds(1)).rounded(.up)))
            let start = ContinuousClock.now
            // What cannot wait must not spin.
            if convoy_multi_poll(multi, milliseconds) != 0 { Thread.sleep(forTimeInterval: 0.01) }
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
                Unmanaged<CurlHandle>.fromOpaque(context).takeUnretainedValue().transfer?.end(code)
            }
        }

        private func checkIdle() {
            guard let due = nextIdleCheck, due <= now else { return }
            var next: ContinuousClock.Instant?
            // A copy: who has waited too long leaves the list.
            for transfer in active {
                guard let time = transfer.checkIdle(now) else { continue }
                next = next.map { min($0, time) } ?? time
            }
            // Not for each one alone: looking at all of them costs something.
            nextIdleCheck = next.map { max($0, now + .milliseconds(2)) }
        }

        // MARK: For transfers

        func takeHandle() -> CurlHandle? { idleHandles.popLast() ?? (try? CurlHandle(options)) }

        /// Gives a transfer's handle to libcurl; false when that did not work.
        func add(_ transfer: CurlTransfer, _ handle: CurlHandle) -> Bool {
            transfer.index = active.count
            active.append(transfer)
            let time = now + transfer.request.idleTimeout
            nextIdleCheck = nextIdleCheck.map { min($0, time) } ?? time
            return curl_multi_add_handle(multi, handle.easy) == 0
        }

        /// Takes the handle back; a connection in the middle of a transfer is closed by that.
        func remove(_ transfer: CurlTransfer, _ handle: CurlHandle) {
            curl_multi_remove_handle(multi, handle.easy)
            handle.transfer = nil
            // libcurl keeps the system's last error in the handle, where the next failure would find it.
            if CurlLibrary.reusesHandles, idleHandles.count < Self.idleHandleLimit,
                handle.long(CurlInfo.osErrno) == 0
            {
                idleHandles.append(handle)
            }
            guard let index = transfer.index else { return }
            transfer.index = nil
            let last = active.removeLast()
            guard index < active.count else { return }
            active[index] = last
            last.index = index
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
