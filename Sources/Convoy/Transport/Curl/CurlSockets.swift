// The sockets of one libcurl multi handle, and how its thread waits for them.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Wakes the thread that waits for it.
    final class Wakeup: Sendable {
        let descriptor: Int32

        /// - Throws: the shortage: memory, or file descriptors.
        init() throws(POSIXError) {
            descriptor = convoy_make_wakeup()
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EMFILE) }
        }

        deinit { close(descriptor) }

        /// - Thread: any.
        func signal() { convoy_signal(descriptor) }
    }

    /// Watches the sockets that libcurl names, with epoll.
    ///
    /// The cost of a wait depends on the number of events, not of requests. `curl_multi_poll` would check every
    /// socket, and `curl_multi_perform` would check each of them again.
    ///
    /// The socket of a kept connection stays watched, because adding it again for each request would cost two calls.
    /// So each wait also notices what the server sends without a request. In every version, only the close callback
    /// releases the socket's number.
    /// - Thread: its loop's.
    final class CurlSockets {
        /// The state of a descriptor.
        private struct Entry {
            /// The events that libcurl waits for; none for a kept connection.
            var wanted: Int32 = 0
            /// The events that the system watches.
            var watched: Int32 = 0
            /// Whether its close will be reported.
            ///
            /// Other descriptors count until libcurl wants no events of them.
            var isOpened = false
            /// The number of waits when libcurl stopped wanting events.
            var keptAtWait = 0
        }

        let wakeup: Wakeup
        private let poller: Int32
        /// Indexed by descriptor.
        @exclusivity(unchecked) private var entries: [Entry] = []
        /// The maximum number of events of one wait.
        private let mostEvents: Int
        private var events: [convoy_event]
        /// The events of the last wait.
        @exclusivity(unchecked) private(set) var ready: [convoy_event] = []
        /// The number of waits so far.
        @exclusivity(unchecked) private var waits = 0
        /// Whether the last wait reported every ready socket.
        ///
        /// There may be more events than one wait takes.
        @exclusivity(unchecked) private(set) var hasSeenAll = false
        /// Whether the system failed to watch a socket, for lack of memory.
        @exclusivity(unchecked) private(set) var hasFailed = false

        /// Makes libcurl report the sockets of a multi handle, which must not outlive this object.
        ///
        /// - Throws: the shortage: memory, or file descriptors.
        init(for multi: OpaquePointer, mostEvents: Int = Int(CONVOY_MOST_EVENTS)) throws(POSIXError) {
            self.mostEvents = mostEvents
            events = Array(repeating: convoy_event(), count: mostEvents)
            wakeup = try Wakeup()
            poller = convoy_make_poller()
            guard poller >= 0, convoy_watch_wakeup(poller, wakeup.descriptor) == 0 else {
                // `deinit` closes both, because everything is initialised.
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

        // MARK: Watched sockets

        /// Records an opened socket, whose close will be reported.
        func noteOpened(_ socket: Int32) { change(socket) { $0 = Entry(isOpened: true) } }

        /// Closes a socket; 0, or -1 and `errno`.
        ///
        /// It stops watching first, because the system would continue while a forked process has the socket open.
        func end(_ socket: Int32) -> Int32 {
            change(socket) { entry in
                if entry.watched != 0 { _ = convoy_watch(poller, socket, entry.watched, 0) }
                entry = Entry()
            }
            return close(socket)
        }

        /// Called when libcurl waits for these events of a socket, or for none.
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

        /// Whether the last wait found no event on the socket of a connection that was kept before it.
        func isQuiet(_ socket: Int32) -> Bool {
            guard entries.indices.contains(Int(socket)) else { return false }
            let entry = entries[Int(socket)]
            let isKept = entry.isOpened && entry.wanted == 0 && entry.watched & 1 != 0
            return hasSeenAll && isKept && entry.keptAtWait < waits
        }

        // MARK: Waiting

        /// Waits for an event or the wake-up; false if neither arrived in time.
        func wait(milliseconds: Int32) -> Bool {
            ready.removeAll(keepingCapacity: true)
            let count = events.withUnsafeMutableBufferPointer {
                convoy_wait(poller, $0.baseAddress, Int32($0.count), milliseconds)
            }
            waits += 1
            hasSeenAll = (0..<mostEvents).contains(Int(count))
            guard count >= 0 else {
                // The loop then polls instead, because it must not spin.
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

        /// Makes libcurl handle the events of the last wait and its due timers.
        func act(_ multi: OpaquePointer) {
            var running: Int32 = 0
            for event in ready where entries[Int(event.socket)].wanted & event.events != 0 {
                curl_multi_socket_action(multi, event.socket, event.events, &running)
            }
            ready.removeAll(keepingCapacity: true)
            // CURL_SOCKET_TIMEOUT
            curl_multi_socket_action(multi, -1, 0, &running)
        }

        /// Makes libcurl report the close of sockets that an easy handle opened.
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
