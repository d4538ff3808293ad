import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests requests that wait for a network.
@Suite(.timeLimit(.minutes(2))) struct ConnectivityTests {
    /// A network that the test unplugs.
    final class Cable: ConnectivityMonitor {
        private struct State {
            var isConnected: Bool
            var tell: (@Sendable (Bool) -> Void)?
        }

        private let queue = DispatchQueue(label: "cable")
        private let state: Locked<State>
        let looks = EventLog<Bool>()

        init(isConnected: Bool) { state = Locked(State(isConnected: isConnected)) }

        func start(_ tell: @escaping @Sendable (Bool) -> Void) {
            let isConnected = state.withLock { state in
                state.tell = tell
                return state.isConnected
            }
            if !isConnected { tell(false) }
        }

        func look(_ then: @escaping @Sendable (Bool) -> Void) {
            queue.async {
                let (tell, isConnected) = self.state.withLock { ($0.tell, $0.isConnected) }
                self.looks.record(isConnected)
                tell?(isConnected)
                then(isConnected)
            }
        }

        /// - Parameter isTold: whether the monitor notices the change by itself.
        func set(_ isConnected: Bool, isTold: Bool = true) {
            queue.sync {
                let tell = state.withLock { state in
                    state.isConnected = isConnected
                    return state.tell
                }
                if isTold { tell?(isConnected) }
            }
        }
    }

    private func manager(
        _ server: StubServer, _ cable: Cable, limit: Int = 16, clock: VirtualClock? = nil,
        configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) -> RequestManager {
        server.manager(limit, clock: clock) { configuration in
            configuration.waitsForConnectivity = true
            configuration.connectivity = { cable }
            configure(&configuration)
        }
    }

    @Test func aReturningNetworkReleasesWaitingRequests() async throws {
        let (server, cable) = (StubServer(), Cable(isConnected: false))
        let manager = manager(server, cable, limit: 1)
        let operations = (0..<3).map { manager.enqueue(.stub("\($0)", host: "\($0).example")) }
        #expect(operations.map { manager.why($0) } == Array(repeating: "waits for a network connection", count: 3))
        // The local machine is reachable without a network, and a waiting request occupies no slot.
        try await manager.send(.stub("here", host: "127.0.0.1:8080"))
        try await manager.send(.stub("here", host: "localhost"))
        #expect(server.paths == ["/here", "/here"])
        cable.set(true)
        for operation in operations { _ = try await operation.response() }
        #expect(server.paths.count == 5)
    }

    @Test func theDeadlineEndsTheWait() async {
        let (server, clock, cable) = (StubServer(), VirtualClock(), Cable(isConnected: false))
        let manager = manager(server, cable, clock: clock)
        let operation = manager.enqueue(Request.stub("a").deadline(.seconds(5)))
        clock.advanceToNext()
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .deadlineExceeded)
        #expect(error?.message.contains("it waits for a network connection") == true)
        #expect(server.exchanges.count == 0)
    }

    /// Even a POST waits and is sent again, because none of its bytes were sent.
    @Test(arguments: [
        RequestError(.connectionFailed, "unreachable"), RequestError(.proxyFailed, "unreachable", isRetryable: true),
    ])
    func aFailedConnectionWaitsWithoutANetwork(failure: RequestError) async throws {
        let cable = Cable(isConnected: true)
        let server = StubServer { exchange in
            // The monitor has not noticed yet that the network is gone.
            guard cable.looks.count == 0 else { return exchange.answer(200) }
            cable.set(false, isTold: false)
            exchange.finish(failure)
        }
        let manager = manager(server, cable)
        let post = Request<Data>.post("http://stub/a")
        let operation = manager.enqueue(post)
        await cable.looks.wait()
        await look { manager.why(operation) == "waits for a network connection" }
        cable.set(true)
        let response = try await operation.response()
        #expect(response.attempts.map(\.next) == [.awaitedConnectivity, .outcome])
        #expect(server.exchanges.count == 2)
    }

    /// The failure does not count against the host.
    @Test func anAttemptWithoutANetworkIsNotAFailureOfItsHost() async throws {
        let cable = Cable(isConnected: true)
        let server = StubServer { exchange in
            guard cable.looks.count == 0 else { return exchange.answer(200) }
            cable.set(false, isTold: false)
            exchange.finish(RequestError(.connectionFailed, "unreachable"))
        }
        let manager = manager(server, cable, clock: VirtualClock()) {
            $0.breaker = BreakerPolicy(failuresInARow: 1, openTime: .seconds(60))
        }
        let operation = manager.enqueue(.stub("a"))
        await look { manager.why(operation) == "waits for a network connection" }
        cable.set(true)
        await look { server.exchanges.count == 2 }
        #expect(server.exchanges.count == 2, "\(manager.why(operation))")
        operation.cancel()
        await manager.drain()
    }

    @Test(arguments: [true, false])
    func aFailedConnectionFailsWithANetwork(waits: Bool) async {
        let cable = Cable(isConnected: true)
        let server = StubServer { $0.finish(RequestError(.connectionFailed, "refused")) }
        let manager = manager(server, cable) { $0.waitsForConnectivity = waits }
        let error = await #expect(throws: RequestError.self) { try await manager.send(.stub("a")) }
        #expect(error?.code == .connectionFailed)
        #expect(cable.looks.events == (waits ? [true] : []))
    }

    @Test func aWaitingRequestCanBeCancelledAndTheMonitorEndsWithItsManager() async {
        weak var gone: Cable?
        do {
            let (server, cable) = (StubServer(), Cable(isConnected: false))
            gone = cable
            let manager = manager(server, cable)
            let operation = manager.enqueue(.stub("a"))
            operation.cancel()
            await manager.drain()
            #expect(operation.error?.code == .cancelled)
        }
        await look { gone == nil }
    }

    #if os(Linux)
        private static let isInNamespace = ProcessInfo.processInfo.environment["CONVOY_NAMESPACE"] != nil

        /// Without notifications, a request could wait forever, so the monitor reports a network.
        @Test func withoutNotificationsANetworkIsAssumed() async {
            let (told, looked) = (EventLog<Bool>(), EventLog<Bool>())
            let monitor = SystemConnectivity(looks: { false }, opens: { nil })
            monitor.start { told.record($0) }
            monitor.look { looked.record($0) }
            #expect(await looked.wait() == [true])
            #expect(told.events.isEmpty)
        }

        /// Runs the next test in a separate network namespace, if the system permits it.
        @Test(.enabled(if: !isInNamespace)) func theSystemReportsItsNetwork() async throws {
            // Sockets of Foundation need the loopback interface.
            let script = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link del v0 && exec \"$@\""
            let namespace = ["timeout", "60", "unshare", "-Urn", "sh", "-c", script, "sh"]
            let status = try await run(namespace + ["true"])
            guard status == 0 else {
                print("skipped: unshare -Urn makes no network namespace with a pair of interfaces here (\(status))")
                return
            }
            let test = [
                CommandLine.arguments[0], "--testing-library", "swift-testing", "--filter",
                "aNamespaceWithoutANetworkGetsOne",
            ]
            #expect(try await run(namespace + ["env", "CONVOY_NAMESPACE=1"] + test) == 0)
        }

        @Test(.enabled(if: isInNamespace)) func aNamespaceWithoutANetworkGetsOne() async throws {
            let server = StubServer()
            let manager = server.manager { $0.waitsForConnectivity = true }
            // A request could be sent before the monitor has looked, so the test waits for the monitor.
            await look { SystemConnectivity.isConnected == false }
            await isTold(manager, isConnected: false)
            let operation = manager.enqueue(.stub("a", host: "10.9.9.2"))
            #expect(manager.why(operation) == "waits for a network connection")
            for command in ["link add v0 type veth peer name v1", "link set v1 up", "link set v0 up"] {
                #expect(try await run(["ip"] + command.split(separator: " ").map(String.init)) == 0)
            }
            // Link-local addresses do not count as a network.
            await isTold(manager, isConnected: false)
            #expect(try await run(["ip", "addr", "add", "10.9.9.1/24", "dev", "v0"]) == 0)
            _ = try await operation.response()
            #expect(try await run(["ip", "link", "set", "v0", "down"]) == 0)
            await look { manager.scheduler.state.withLock { $0.queues.isOffline } }
            let second = manager.enqueue(.stub("b", host: "10.9.9.2"))
            #expect(manager.why(second) == "waits for a network connection")
            second.cancel()
        }

        private func isTold(_ manager: RequestManager, isConnected: Bool) async {
            let told = EventLog<Bool>()
            manager.scheduler.connectivity?.look { told.record($0) }
            #expect(await told.wait() == [isConnected])
        }

        private func run(_ arguments: [String]) async throws -> Int32 {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = arguments
            (process.standardOutput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
            let ended = EventLog<Int32>()
            process.terminationHandler = { ended.record($0.terminationStatus) }
            try process.run()
            return await ended.wait().first ?? -1
        }
    #endif
}
