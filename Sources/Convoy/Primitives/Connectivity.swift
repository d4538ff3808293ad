// Whether this machine has a network.
import Foundation

#if canImport(Network)
    import Network
#endif

/// Reports whether this machine has a network.
///
/// A monitor checks only the local interfaces, not the networks beyond them.
protocol ConnectivityMonitor: AnyObject, Sendable {
    /// Starts reporting changes.
    ///
    /// Until the first report, a network is assumed. The scheduler calls this method once.
    ///
    /// - Parameter tell: receives each change, in order, until the monitor is released.
    func start(_ tell: @escaping @Sendable (_ isConnected: Bool) -> Void)
    /// Checks for a network now, and passes the result to `then`.
    ///
    /// If the network has changed, the function that was passed to ``start(_:)`` is called first.
    func look(_ then: @escaping @Sendable (_ isConnected: Bool) -> Void)
}

/// The system's own network: rtnetlink on Linux, `NWPathMonitor` on Apple platforms.
///
/// On Linux a network exists when an interface other than loopback is up and running and has an address beyond link
/// scope. If that cannot be determined, a network is assumed.
///
/// ## Concurrency
/// The state is used on the monitor's queue, except in `start` and `deinit`.
final class SystemConnectivity: ConnectivityMonitor {
    private struct State {
        var tell: (@Sendable (Bool) -> Void)?
        var isConnected = true
        /// Whether the system reports changes.
        ///
        /// If false, a network is assumed, because its return would not be reported.
        var isWatching = false
        /// The object that reports changes; cancelled when the monitor is released.
        #if canImport(Network)
            var source: NWPathMonitor?
        #else
            var source: (any DispatchSourceRead)?
        #endif
    }

    private let queue = DispatchQueue(label: "convoy.connectivity")
    private let state = Locked(State())
    private let looks: @Sendable () -> Bool?
    private let opens: @Sendable () -> Int32?

    /// - Parameters:
    ///   - looks: checks whether there is a network now; nil when unknown.
    ///   - opens: opens an rtnetlink socket; nil when that fails.
    init(
        looks: @escaping @Sendable () -> Bool? = { SystemConnectivity.isConnected },
        opens: @escaping @Sendable () -> Int32? = { SystemConnectivity.openSocket() }
    ) {
        (self.looks, self.opens) = (looks, opens)
    }

    deinit { state.withLock { $0.source?.cancel() } }

    func start(_ tell: @escaping @Sendable (Bool) -> Void) {
        state.withLock { $0.tell = tell }
        queue.async { [weak self] in
            guard let self else { return }
            let isWatching = watch()
            state.withLock { $0.isWatching = isWatching }
            note(looks() ?? true)
        }
    }

    func look(_ then: @escaping @Sendable (Bool) -> Void) {
        queue.async {
            if let isConnected = self.looks() { self.note(isConnected) }
            then(self.state.withLock { $0.isConnected })
        }
    }

    /// - Thread: the monitor's queue.
    private func note(_ isConnected: Bool) {
        let tell = state.withLock { state in
            let isConnected = isConnected || !state.isWatching
            guard isConnected != state.isConnected else { return nil as (@Sendable (Bool) -> Void)? }
            state.isConnected = isConnected
            return state.tell
        }
        tell?(isConnected)
    }

    #if os(Linux)
        /// Whether there is a network now; nil when unknown.
        static var isConnected: Bool? {
            var list: UnsafeMutablePointer<ifaddrs>?
            guard getifaddrs(&list) == 0 else { return nil }
            defer { freeifaddrs(list) }
            var next = list
            while let entry = next?.pointee {
                next = entry.ifa_next
                // 0x41 is IFF_UP and IFF_RUNNING, and 0x08 is IFF_LOOPBACK.
                guard entry.ifa_flags & 0x49 == 0x41, let address = entry.ifa_addr else { continue }
                switch Int32(address.pointee.sa_family) {
                case AF_INET:
                    let octets = UnsafeRawPointer(address).loadUnaligned(fromByteOffset: 4, as: (UInt8, UInt8).self)
                    if octets.0 != 169 || octets.1 != 254 { return true }
                case AF_INET6:
                    let octets = UnsafeRawPointer(address).loadUnaligned(fromByteOffset: 8, as: (UInt8, UInt8).self)
                    if octets.0 != 0xFE || octets.1 & 0xC0 != 0x80 { return true }
                default: break
                }
            }
            return false
        }

        /// Starts to check for a network whenever rtnetlink reports a change of links or addresses.
        ///
        /// Returns false if rtnetlink cannot be opened. The content of the reports is not used.
        private func watch() -> Bool {
            guard let socket = opens() else { return false }
            let source = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
            source.setEventHandler { [weak self] in
                guard Self.drain(socket) else {
                    // No more changes will be reported, so no request may wait for a network.
                    self?.state.withLock { state in
                        state.isWatching = false
                        state.source?.cancel()
                    }
                    self?.note(true)
                    return
                }
                self?.note(self?.looks() ?? true)
            }
            source.setCancelHandler { close(socket) }
            source.resume()
            state.withLock { $0.source = source }
            return true
        }

        static func openSocket() -> Int32? {
            let kind = Int32(SOCK_RAW.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
            // The protocol 0 is NETLINK_ROUTE.
            let descriptor = socket(AF_NETLINK, kind, 0)
            guard descriptor >= 0 else { return nil }
            var address = sockaddr_storage()
            address.ss_family = sa_family_t(AF_NETLINK)
            // `nl_groups` of `sockaddr_nl`: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
            withUnsafeMutableBytes(of: &address) { $0.storeBytes(of: 0x111, toByteOffset: 8, as: UInt32.self) }
            let isBound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, 12) } == 0
            }
            if !isBound { close(descriptor) }
            return isBound ? descriptor : nil
        }

        /// Reads the waiting messages from the socket, at most 64.
        ///
        /// Returns false when the socket can no longer be used.
        private static func drain(_ socket: Int32) -> Bool {
            var buffer = [UInt8](repeating: 0, count: 8_192)
            for _ in 0..<64 {
                let count = recv(socket, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                if count > 0 { continue }
                // ENOBUFS: the kernel has discarded messages, so links or addresses have changed.
                return count < 0 && [EAGAIN, EWOULDBLOCK, EINTR, ENOBUFS].contains(errno)
            }
            return true
        }
    #elseif canImport(Network)
        /// Always nil, because the path monitor reports changes instead.
        static var isConnected: Bool? { nil }
        static func openSocket() -> Int32? { nil }

        private func watch() -> Bool {
            let monitor = NWPathMonitor()
            monitor.pathUpdateHandler = { [weak self] path in self?.note(path.status != .unsatisfied) }
            monitor.start(queue: queue)
            state.withLock { $0.source = monitor }
            return true
        }
    #else
        static var isConnected: Bool? { nil }
        static func openSocket() -> Int32? { nil }
        private func watch() -> Bool { false }
    #endif
}
