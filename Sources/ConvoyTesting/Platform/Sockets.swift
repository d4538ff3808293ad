import Foundation

#if canImport(Darwin)
    private let streamType = SOCK_STREAM
    private let sendFlags: Int32 = 0
    private let hangUpEvents = Int16(POLLHUP)
#else
    private let streamType = Int32(SOCK_STREAM.rawValue)
    private let sendFlags = Int32(MSG_NOSIGNAL)
    private let hangUpEvents = Int16(0x2000)  // POLLRDHUP, which Glibc hides behind _GNU_SOURCE
#endif

enum SocketWait {
    case timedOut, woken, peerIsGone, stopped
}

extension Descriptor {
    static func listening(on port: UInt16) throws(TestServerError) -> (socket: Descriptor, port: UInt16) {
        let number = socket(AF_INET, streamType, 0)
        guard number >= 0 else { throw .cannotListen(call: "socket", code: errno) }
        let listener = Descriptor(number)
        listener.setFlags(nonBlocking: true)
        listener.setOption(SOL_SOCKET, SO_REUSEADDR)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(number, $0, length) }
        }
        guard bound == 0 else { throw .cannotListen(call: "bind", code: errno) }
        guard listen(number, 1024) == 0 else { throw .cannotListen(call: "listen", code: errno) }
        let named = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
        }
        guard named == 0 else { throw .cannotListen(call: "getsockname", code: errno) }
        return (listener, UInt16(bigEndian: address.sin_port))
    }

    /// A pipe would not do: the waiting thread may close its end while another signals, and SIGPIPE would end the
    /// process.
    static func wakePair() -> (reading: Descriptor, writing: Descriptor)? {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, streamType, 0, &ends) == 0 else { return nil }
        let pair = (reading: Descriptor(ends[0]), writing: Descriptor(ends[1]))
        pair.reading.setFlags(nonBlocking: true)
        pair.writing.setFlags(nonBlocking: true)
        #if canImport(Darwin)
            pair.writing.setOption(SOL_SOCKET, SO_NOSIGPIPE)
        #endif
        return pair
    }

    func acceptConnection() -> Descriptor? {
        let accepted = accept(number, nil, nil)
        guard accepted >= 0 else { return nil }
        let connection = Descriptor(accepted)
        connection.setFlags(nonBlocking: false)
        connection.setOption(Int32(IPPROTO_TCP), TCP_NODELAY)
        #if canImport(Darwin)
            connection.setOption(SOL_SOCKET, SO_NOSIGPIPE)
        #endif
        return connection
    }

    /// 0 at the end of the stream, negative after a failure.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        while true {
            let count = recv(number, buffer.baseAddress, buffer.count, 0)
            if count >= 0 || errno != EINTR { return count }
        }
    }

    /// Returns false when the peer has disconnected.
    func sendAll(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = send(number, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count, sendFlags)
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count < 0, errno == EINTR {
                continue
            } else {
                return false
            }
        }
        return true
    }

    func shutDown(reading: Bool, writing: Bool) {
        let how = reading ? (writing ? Int32(SHUT_RDWR) : Int32(SHUT_RD)) : Int32(SHUT_WR)
        use { _ = shutdown($0, how) }
    }

    /// The next ``close()`` sends RST once the peer has acknowledged all written bytes, after at most two seconds.
    func prepareReset() {
        // Closing with a zero linger time discards bytes that the peer has not acknowledged. The system does not
        // report when the send queue is empty, so the loop polls its size each millisecond, for at most two seconds.
        var attempts = 0
        while unsentByteCount > 0, attempts < 2_000 {
            attempts += 1
            guard waitForHangUp(milliseconds: 1, watchesReading: false) == .timedOut else { break }
        }
        var option = linger(l_onoff: 1, l_linger: 0)
        _ = setsockopt(number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// If so, closing the socket would send RST.
    var hasUnreadInput: Bool {
        var byte: UInt8 = 0
        return recv(number, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
    }

    func waitForHangUp(milliseconds: Int32, watchesReading: Bool, or other: Descriptor? = nil) -> SocketWait {
        var entries = [pollfd(fd: number, events: watchesReading ? hangUpEvents : 0, revents: 0)]
        if let other { entries.append(pollfd(fd: other.number, events: Int16(POLLIN), revents: 0)) }
        let count = poll(&entries, nfds_t(entries.count), milliseconds)
        guard count > 0 else { return .timedOut }
        if entries.dropFirst().contains(where: { $0.revents != 0 }) { return .woken }
        return .peerIsGone
    }

    /// Waits until the descriptor is readable or at its end (`woken`), or `other` is readable (`stopped`).
    func waitForInput(milliseconds: Int32, or other: Descriptor?) -> SocketWait {
        var entries = [pollfd(fd: number, events: Int16(POLLIN), revents: 0)]
        if let other { entries.append(pollfd(fd: other.number, events: Int16(POLLIN), revents: 0)) }
        guard poll(&entries, nfds_t(entries.count), milliseconds) > 0 else { return .timedOut }
        return entries.dropFirst().contains { $0.revents != 0 } ? .stopped : .woken
    }

    /// No effect if one end of the pair is closed.
    func signal() {
        use { number in
            var byte: UInt8 = 1
            _ = send(number, &byte, 1, sendFlags)
        }
    }

    private var unsentByteCount: Int32 {
        var count: Int32 = 0
        #if canImport(Darwin)
            var length = socklen_t(MemoryLayout<Int32>.size)
            _ = getsockopt(number, SOL_SOCKET, SO_NWRITE, &count, &length)
        #else
            _ = ioctl(number, UInt(TIOCOUTQ), &count)
        #endif
        return count
    }

    private func setFlags(nonBlocking: Bool) {
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        let flags = fcntl(number, F_GETFL)
        _ = fcntl(number, F_SETFL, nonBlocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK)
    }

    private func setOption(_ level: Int32, _ option: Int32) {
        var on: Int32 = 1
        _ = setsockopt(number, level, option, &on, socklen_t(MemoryLayout<Int32>.size))
    }
}
