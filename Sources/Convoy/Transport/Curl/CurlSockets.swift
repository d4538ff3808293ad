// The sockets of one libcurl multi handle, and how its thread waits for them.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Wakes the thread that waits for it.
    final class Wakeup: Sendable {
        let descriptor: Int32

        /// - Throws: what there is too little of: memory, or file descriptors.
        init() throws(POSIXError) {
            descriptor = convoy_make_wakeup()
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EMFILE) }
        }

        deinit { close(descriptor) }

        /// - Thread: any.
        func signal() { convoy_signal(descriptor) }
    }

    /// Watches the sockets libcurl names, with an epoll.
    ///
    /// Waiting costs what has happened, not how many requests are under way: `curl_multi_poll` looks at every socket, and
    /// libcurl's `curl_multi_perform` at each of them again.
    ///
    /// The socket of a kept connection stays watched: to watch it anew for each request would cost two calls, and so each
    /// wait sees what the server sends on it without a request. Its number is given back by the close callback only, in
    /// every version.
    /// - Thread: its loop's.
    final class CurlSockets {
        /// What is known of a descriptor.
        private struct Entry {
            /// What libcurl waits for; nothing for a kept connection.
            var wanted: Int32 = 0
            /// What the system watches it for.
            var watched: Int32 = 0
            /// Whether its end will be told; others are named until libcurl wants nothing of them.
            var isOpened = false
            /// How many waits there had been when libcurl wanted nothing any more.
            var keptAtWait = 0
        }

        let wakeup: Wakeup
        private let poller: Int32
        /// By descriptor.
        @exclusivity(unchecked) private var entries: [Entry] = []
        /// How many events a wait takes in.
        private let mostEvents: Int
        private var events: [convoy_event]
        /// What the last wait has found.
        @exclusivity(unchecked) private(set) var ready: [convoy_event] = []
        /// How many waits there have been.
        @exclusivity(unchecked) private var waits = 0
        /// Whether the last one has seen every socket on which something had happened: more may have been than it takes in.
        @exclusivity(unchecked) private(set) var hasSeenAll = false
        /// Whether the system did not watch a socket: it is low on memory.
        @exclusivity(unchecked) private(set) var hasFailed = false

        /// Has libcurl name the sockets of a multi handle, which must not outlive this.
        ///
        /// - Throws: what there is too little of: memory, or file descriptors.
        init(for multi: OpaquePointer, mostEvents: Int = Int(CONVOY_MOST_EVENTS)) throws(POSIXError) {
            self.mostEvents = mostEvents
            events = Array(repeating: convoy_event(), count: mostEvents)
            wakeup = try Wakeup()
            poller = convoy_make_poller()
            guard poller >= 0, convoy_watch_wakeup(poller, wakeup.descriptor) == 0 else {
                // `deinit` closes both: everything has a value.
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .ENOMEM)
            }
            convoy_multi_set_socket_callback(
                multi,
                { _, socket, events, context, _ in
                    // CURL_POLL_REMOVE is 4.
                    CurlSockets.at(context)?.want(events & 3, of: socket)
                    return 0
                }, Unmanaged.passUnretained(self).toOpaque())
        }

        deinit { if poller >= 0 { close(poller) } }

        // MARK: What is watched

        /// A socket has been opened whose end will be told.
        func noteOpened(_ socket: Int32) { change(socket) { $0 = Entry(isOpened: true) } }

        /// Closes a socket: 0, or -1 and `errno`.
        ///
        /// Not before it is not watched any more: the system would go on while a process forked off this one has it open.
        func end(_ socket: Int32) -> Int32 {
            change(socket) { entry in
                if entry.watched != 0 { _ = convoy_watch(poller, socket, entry.watched, 0) }
                entry = Entry()
            }
            return close(socket)
        }

        /// libcurl waits for these events of a socket, or for none.
        func want(_ wanted: Int32, of socket: Int32) {
            change(socket) { entry in
                if wanted == 0, entry.wanted != 0 { entry.keptAtWait = waits }
                entry.wanted = wanted
                if wanted != 0 || !entry.isOpened { watch(socket, &entry) }
            }
        }

        private func watch(_ socket: Int32, _ entry: inout Entry) {
            guard entry.watched != entry.wanted else { return }
            if convoy_watch(poller, socket, entry.watched, entry.wanted) != 0, entry.wanted != 0 { hasFailed = true }
            entry.watched = entry.wanted
        }

        private func change(_ socket: Int32, _ change: (inout Entry) -> Void) {
            guard socket >= 0 else { return }
            let index = Int(socket)
            if index >= entries.count {
                entries += repeatElement(Entry(), count: max(64, index + 1 - entries.count))
            }
            change(&entries[index])
        }

        /// Whether the last wait has found nothing on the socket of a connection that was kept before it.
        func isQuiet(_ socket: Int32) -> Bool {
            guard entries.indices.contains(Int(socket)) else { return false }
            let entry = entries[Int(socket)]
            let isKept = entry.isOpened && entry.wanted == 0 && entry.watched & 1 != 0
            return hasSeenAll && isKept && entry.keptAtWait < waits
        }

        // MARK: Waiting

        /// Waits for an event, or for the wake-up; false when neither came in time.
        func wait(milliseconds: Int32) -> Bool {
            ready.removeAll(keepingCapacity: true)
            let count = events.withUnsafeMutableBufferPointer {
                convoy_wait(poller, $0.baseAddress, Int32($0.count), milliseconds)
            }
            waits += 1
            hasSeenAll = (0..<mostEvents).contains(Int(count))
            guard count >= 0 else {
                // What cannot wait must not spin.
                hasFailed = true
                return true
            }
            for event in events.prefix(Int(count)) where event.socket != wakeup.descriptor {
                change(event.socket) { entry in
                    let wanted = event.events & entry.wanted
                    if wanted != 0 {
                        ready.append(convoy_event(socket: event.socket, events: wanted))
                    } else {
                        watch(event.socket, &entry)
                    }
                }
            }
            return count > 0
        }

        /// Has libcurl do what the last wait has found, and what is due.
        func act(_ multi: OpaquePointer) {
            var running: Int32 = 0
            for event in ready where entries[Int(event.socket)].wanted & event.events != 0 {
                curl_multi_socket_action(multi, event.socket, event.events, &running)
            }
            ready.removeAll(keepingCapacity: true)
            // CURL_SOCKET_TIMEOUT
            curl_multi_socket_action(multi, -1, 0, &running)
        }

        /// Has libcurl tell the end of sockets that are opened through an easy handle.
        func attach(to handle: CurlHandle) {
            convoy_set_close_callback(
                handle.easy, { context, socket in CurlSockets.at(context)?.end(socket) ?? 1 },
                Unmanaged.passUnretained(self).toOpaque())
        }

        private static func at(_ context: UnsafeMutableRawPointer?) -> CurlSockets? {
            context.map { Unmanaged<CurlSockets>.fromOpaque($0).takeUnretainedValue() }
        }
    }
#endif
