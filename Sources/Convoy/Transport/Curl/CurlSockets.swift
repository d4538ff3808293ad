// The sockets of one libcurl multi handle, and how the thread waits for their events.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    final class Wakeup: Sendable {
        let descriptor: Int32

        init() throws(POSIXError) {
            descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EMFILE) }
        }

        deinit { close(descriptor) }

        /// Makes every wait return; if this fails, the counter is full, so that a signal is pending.
        func signal() { eventfd_write(descriptor, 1) }
    }

    struct ConnectionKey: Hashable {
        let remoteAddress: String
        let remotePort: Int32
        let localPort: Int32
    }

    // With epoll the cost of a wait depends on the number of events; `curl_multi_poll` and `curl_multi_perform` check
    // every socket. The socket of an idle connection stays watched, because adding it again for each request would cost
    // two system calls. So each wait also reports what the server sends without a request. Watching ends in the close
    // callback, because only that releases the socket's number in every version of libcurl.
    final class CurlSockets {
        private struct Entry {
            /// The events that libcurl waits for; 0 for an idle connection.
            var wanted: Int32 = 0
            var watched: Int32 = 0
            /// If true, watched until libcurl reports the close; otherwise only while libcurl waits for its events.
            var isOpened = false
            /// The value of `waits` when libcurl last stopped waiting for events of this socket.
            var keptAtWait = 0
            var connection: ConnectionKey?
        }

        let wakeup: Wakeup
        private let poller: Int32
        @exclusivity(unchecked) private var entries: [Entry] = []
        /// The sockets of the connections that ``keep(_:socket:)`` has recorded, until they are closed.
        private(set) var kept: [ConnectionKey: Int32] = [:]
        private var events: [epoll_event]
        private(set) var ready: [(socket: Int32, events: Int32)] = []
        private var waits = 0
        /// There may be more events than one wait returns.
        private(set) var hasSeenAll = false
        /// Watching or waiting has failed, for example for lack of memory, so the loop polls.
        private(set) var hasFailed = false

        init(mostEvents: Int = 256) throws(POSIXError) {
            events = Array(repeating: epoll_event(), count: mostEvents)
            wakeup = try Wakeup()
            poller = epoll_create1(Int32(EPOLL_CLOEXEC))
            // The eventfd is edge-triggered, so that its counter need not be read after each signal.
            guard poller >= 0, control(EPOLL_CTL_ADD, wakeup.descriptor, EPOLLIN.rawValue | EPOLLET.rawValue) else {
                // `deinit` closes the poller, because all properties are initialised.
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .ENOMEM)
            }
        }

        deinit { if poller >= 0 { close(poller) } }

        // MARK: Watched sockets

        func noteOpened(_ socket: Int32) { change(socket) { $0 = Entry(isOpened: true) } }

        // Epoll would watch the socket as long as a forked process has it open.
        func end(_ socket: Int32) -> Int32 {
            change(socket) { entry in
                if entry.watched != 0 { _ = control(EPOLL_CTL_DEL, socket, 0) }
                if let connection = entry.connection { kept[connection] = nil }
                entry = Entry()
            }
            return close(socket)
        }

        func want(_ wanted: Int32, of socket: Int32) {
            change(socket) { entry in
                if wanted == 0, entry.wanted != 0 { entry.keptAtWait = waits }
                entry.wanted = wanted
                if wanted != 0 || !entry.isOpened { watch(socket, &entry) }
            }
        }

        private func watch(_ socket: Int32, _ entry: inout Entry) {
            guard entry.watched != entry.wanted else { return }
            let operation = entry.wanted == 0 ? EPOLL_CTL_DEL : entry.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
            // EPOLLIN is 1, EPOLLOUT 4.
            let events = UInt32(entry.wanted & 1 | (entry.wanted & 2) << 1)
            if !control(operation, socket, events), entry.wanted != 0 { hasFailed = true }
            entry.watched = entry.wanted
        }

        private func control(_ operation: Int32, _ socket: Int32, _ events: UInt32) -> Bool {
            var event = epoll_event(events: events, data: epoll_data(fd: socket))
            return epoll_ctl(poller, operation, socket, &event) == 0
        }

        private func change(_ socket: Int32, _ change: (inout Entry) -> Void) {
            guard socket >= 0 else { return }
            let index = Int(socket)
            if index >= entries.count {
                entries += repeatElement(Entry(), count: max(64, index + 1 - entries.count))
            }
            change(&entries[index])
        }

        /// Whether the last wait found no event on the socket of a connection that was idle before that wait.
        func isQuiet(_ socket: Int32) -> Bool {
            guard entries.indices.contains(Int(socket)) else { return false }
            let entry = entries[Int(socket)]
            let isKept = entry.isOpened && entry.wanted == 0 && entry.watched & 1 != 0
            return hasSeenAll && isKept && entry.keptAtWait < waits
        }

        func keep(_ connection: ConnectionKey, socket: Int32) {
            change(socket) { entry in
                guard connection.localPort > 0, entry.isOpened else { return }
                if let old = entry.connection { kept[old] = nil }
                entry.connection = connection
                kept[connection] = socket
            }
        }

        // Whether the server has sent bytes on an idle connection, or has closed it. libcurl would read the bytes as the
        // start of the next response (RFC 9112, section 6.3), and some versions would lose a POST on a closed one.
        func isUnusable(_ socket: Int32) -> Bool {
            var byte: UInt8 = 0
            return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) >= 0 || errno == ECONNRESET
        }

        // MARK: Waiting

        /// False if neither an event nor the wake-up arrived in time; true also if the wait itself fails.
        func wait(milliseconds: Int32) -> Bool {
            ready.removeAll(keepingCapacity: true)
            var count = epoll_wait(poller, &events, Int32(events.count), milliseconds)
            if count < 0, errno == EINTR { count = 0 }
            waits += 1
            hasSeenAll = (0..<events.count).contains(Int(count))
            guard count >= 0 else {
                // The loop then polls, because repeated failures of this call would make the loop spin.
                hasFailed = true
                return true
            }
            for event in events.prefix(Int(count)) where event.data.fd != wakeup.descriptor {
                let socket = event.data.fd
                change(socket) { entry in
                    // After a failure of the socket, both bits are set.
                    let readable: Int32 = event.events & ~EPOLLOUT.rawValue != 0 ? 1 : 0
                    let wanted = (readable | (event.events & ~EPOLLIN.rawValue != 0 ? 2 : 0)) & entry.wanted
                    if wanted != 0 { ready.append((socket, wanted)) } else { watch(socket, &entry) }
                }
            }
            return count > 0
        }

        func act(_ multi: OpaquePointer) {
            var running: Int32 = 0
            for event in ready where entries[Int(event.socket)].wanted & event.events != 0 {
                curl_multi_socket_action(multi, event.socket, event.events, &running)
            }
            ready.removeAll(keepingCapacity: true)
            // -1 is CURL_SOCKET_TIMEOUT.
            curl_multi_socket_action(multi, -1, 0, &running)
        }

        /// The multi handle must not outlive this object.
        func watch(_ multi: OpaquePointer) {
            convoy_multi_set_socket_callback(
                multi,
                { _, socket, events, context, _ in
                    // CURL_POLL_REMOVE is 4. The mask makes it 0, which means no events.
                    CurlSockets.at(context)?.want(events & 3, of: socket)
                    return 0
                }, Unmanaged.passUnretained(self).toOpaque())
        }

        func attach(to handle: CurlHandle) {
            convoy_set_close_callback(
                handle.easy, { context, socket in CurlSockets.at(context)?.end(socket) ?? 1 },
                Unmanaged.passUnretained(self).toOpaque())
        }

        private static func at(_ context: UnsafeMutableRawPointer?) -> CurlSockets? {
            context.map { Unmanaged<CurlSockets>.fromOpaque($0).takeUnretainedValue() }
        }
    }

    /// libcurl has one code for a connection that ends during the handshake and for a handshake that a side rejects.
    struct Handshake {
        var sockets: [Int32] = []
        var hasBegun = false
        var hasAlert = false
        /// With TLS 1.3 the alert may follow the handshake, because the server checks the client's certificate late.
        var isRefused = false
        var isAtEnd = false
        /// The last one: the handshake with an HTTPS proxy precedes that with the server.
        var session: TLSSession?

        var isCut: Bool { hasBegun && !hasAlert && isAtEnd }

        mutating func noteAlert(isOwn: Bool, isFatal: Bool) {
            if isOwn { look() } else if isFatal { isRefused = true }
            // Newer versions of OpenSSL send an alert of their own when the connection ends. That alert does not count.
            if !isOwn || !isAtEnd { hasAlert = true }
        }

        mutating func look() {
            var byte: UInt8 = 0
            isAtEnd = isAtEnd || sockets.contains { recv($0, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0 }
        }
    }

    /// From libcurl's log lines, as no other source exists in all versions; for display only, nil with an unknown text.
    struct TLSSession: Equatable {
        var version: String
        var cipher: String

        /// `SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384`; GnuTLS writes `TLS1.3`.
        init?(_ text: UnsafeRawBufferPointer) {
            // A fast check comes first, because most of the many log lines do not match.
            guard text.first == UInt8(ascii: "S") else { return nil }
            let words = String(decoding: text.prefix(256), as: UTF8.self)
            let pattern = #/SSL connection using TLSv?([0-9][0-9.]*)(?: \/ (\S+).*)?\s*/#
            guard let match = words.wholeMatch(of: pattern), match.2 != "(NONE)" else { return nil }
            (version, cipher) = (String(match.1), String(match.2 ?? ""))
        }
    }
#endif
