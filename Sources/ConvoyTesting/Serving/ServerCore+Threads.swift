import Foundation

/// Counts the running threads of a server, so that ``TestServer/shutDown()`` can wait for the last one.
///
/// `@unchecked Sendable`: `running` is used only while `condition` is locked.
final class ThreadCount: @unchecked Sendable {
    private let condition = NSCondition()
    private var running = 0

    func enter() {
        condition.lock()
        running += 1
        condition.unlock()
    }

    func leave() {
        condition.lock()
        running -= 1
        condition.broadcast()
        condition.unlock()
    }

    /// Waits until at most `rest` threads run, or the time is over.
    func wait(downTo rest: Int, until end: Date) {
        condition.lock()
        defer { condition.unlock() }
        while running > rest, condition.wait(until: end) {}
    }
}

/// The key under which a server's thread stores the identity of its core.
///
/// By this identity, `shutDown` notices that a handler shuts down its own server. The call then does not wait for the
/// handler's thread.
private let coreKey = "ConvoyTesting.core"

extension ServerCore {
    private func startThread(_ name: String, _ work: @escaping @Sendable () -> Void) {
        threads.enter()
        let thread = Thread { [self] in
            Thread.current.threadDictionary[coreKey] = ObjectIdentifier(self)
            work()
            threads.leave()
        }
        thread.name = name
        thread.stackSize = 256 * 1024
        thread.start()
    }

    func startAccepting(on listener: Descriptor, until wake: Descriptor) {
        startThread("ConvoyTesting accept") { [self] in
            accept(on: listener, until: wake)
            // A child process that is being started briefly has a copy of the listener. Without `shutDown`, that copy
            // would still accept connections.
            listener.shutDown(reading: true, writing: true)
            listener.close()
            wake.close()
        }
    }

    private func accept(on listener: Descriptor, until wake: Descriptor) {
        while true {
            guard listener.waitForInput(milliseconds: 60_000, or: wake) != .stopped else { return }
            // The loop accepts all waiting connections, so that one poll serves several.
            while let socket = listener.acceptConnection() { startConnection(socket) }
            // If no descriptors are left, the listener stays readable. The loop tries again after 10 ms, unless the
            // server stops.
            if errno == EMFILE || errno == ENFILE, wake.waitForInput(milliseconds: 10, or: nil) == .woken { return }
        }
    }

    private func startConnection(_ socket: Descriptor) {
        let number: Int? = change { state in
            guard !state.isShutDown else { return nil }
            state.connectionCount += 1
            state.connections[state.connectionCount] = socket
            return state.connectionCount
        }
        guard let number else { return socket.close() }
        startThread("ConvoyTesting \(number)") { [self] in
            var connection = Connection(core: self, number: number, socket: socket)
            connection.run()
            socket.close()
            change { $0.connections[number] = nil }
        }
    }

    /// Ends every open connection.
    ///
    /// The threads of the connections notice the end at once.
    func disconnectAll() {
        let sockets = read { Array($0.connections.values) }
        for socket in sockets { socket.shutDown(reading: true, writing: true) }
    }

    func shutDown(waking wake: Descriptor) {
        let (takers, waits) = change { state in
            state.isShutDown = true
            let result = (state.takers.all, state.waits.values.map(\.waiter))
            state.takers = FIFO()
            state.waits = [:]
            return result
        }
        wake.signal()
        disconnectAll()
        for taker in takers { taker.resolve(.failure(.shutDown)) }
        for wait in waits { wait.resolve(.failure(.shutDown)) }
        let isOwnThread = Thread.current.threadDictionary[coreKey] as? ObjectIdentifier == ObjectIdentifier(self)
        threads.wait(downTo: isOwnThread ? 1 : 0, until: Date(timeIntervalSinceNow: 10))
        wake.close()
    }
}
