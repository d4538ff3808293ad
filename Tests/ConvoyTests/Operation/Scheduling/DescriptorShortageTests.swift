import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests a lack of file descriptors: requests are sent again, and fewer run at once.
@Suite struct DescriptorShortageTests {
    /// A server with this number of descriptors, of which each exchange uses one until its response.
    private final class ScarceServer: Sendable {
        struct State {
            var held: [StubExchange] = []
            var peak = 0
        }

        let capacity: Int
        let state = Locked(State())
        /// One entry for each exchange that got a descriptor.
        let admitted = EventLog<Int>()

        init(_ capacity: Int) { self.capacity = capacity }

        var transport: StubTransport {
            StubTransport { [self] exchange in
                let number: Int? = state.withLock { state in
                    guard state.held.count < capacity else { return nil }
                    state.held.append(exchange)
                    state.peak = max(state.peak, state.held.count)
                    return state.held.count
                }
                guard let number else { return exchange.finish(.shortage(EMFILE)) }
                admitted.record(number)
            }
        }

        func answerOne() {
            let exchange = state.withLock { $0.held.isEmpty ? nil : $0.held.removeFirst() }
            exchange?.answer(200, body: Data("ok".utf8))
        }
    }

    private func manager(
        _ server: ScarceServer, limit: Int = 64, clock: (any RequestClock)? = nil
    ) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: limit, maxConcurrentPerHost: limit, transport: .custom(server.transport))
        configuration.retries = .never
        if let clock { configuration.clock = clock }
        return RequestManager(configuration: configuration)
    }

    /// The requests have not been sent, so even a POST is sent again.
    @Test(.timeLimit(.minutes(2)), arguments: [false, true])
    func aRequestIsSentAgainUntilADescriptorIsFree(isPost: Bool) async throws {
        let (server, clock) = (ScarceServer(1), VirtualClock())
        let manager = manager(server, clock: clock)
        let (first, short) = await shortage(in: manager, server, isPost: isPost)
        await look { short.attempts.count == 1 }
        #expect(short.attempts.first?.next == .awaitedDescriptor)
        server.answerOne()
        _ = try await first.response()
        await look {
            clock.advanceToNext()
            return server.admitted.count == 2
        }
        server.answerOne()
        _ = try await short.response()
        #expect(server.state.withLock { $0.peak } == 1)
    }

    @Test(.timeLimit(.minutes(2))) func aShortageThatDoesNotEndIsAnError() async throws {
        let (server, clock) = (ScarceServer(1), VirtualClock())
        let manager = manager(server, clock: clock)
        let (endless, short) = await shortage(in: manager, server)
        await look {
            clock.advanceToNext()
            return short.result != nil
        }
        #expect(short.error?.code == .connectionFailed && short.error?.lacksDescriptors == true)
        #expect(short.attempts.count == 11)
        endless.cancel()
    }

    /// Starts an operation that uses the only descriptor, and another operation that gets none.
    private func shortage(
        in manager: RequestManager, _ server: ScarceServer, isPost: Bool = false
    ) async -> (endless: RequestOperation<Data>, short: RequestOperation<Data>) {
        let endless = manager.operation(Request<Data>.stub("endless"))
        manager.enqueue(endless)
        _ = await server.admitted.wait(count: 1)
        let request = isPost ? Request<Data>.post("http://stub/short").body(Data("a".utf8)) : .stub("short")
        let short = manager.operation(request)
        manager.enqueue(short)
        return (endless, short)
    }

    #if os(Linux)
        /// A refused connection is reported as `connectionFailed`, even if few descriptors are left.
        @Test func aRefusedConnectionIsNotReportedAsADescriptorShortage() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let port = try LoopbackPort.refusing()
                let request = Request<Data>.get("http://127.0.0.1:\(port.port)/")
                // A second thread would need further descriptors.
                var options = ConnectionOptions()
                options.engineCount = 1
                let transport = try CurlTransport(options)
                await openDescriptorsOfDispatch()
                #expect(try await Sending(request, over: transport).error().code == .connectionFailed)
                limitDescriptors(toFree: 8)
                var taken: [Int32] = []
                while case let descriptor = open("/dev/null", O_RDONLY), descriptor >= 0 { taken.append(descriptor) }
                for descriptor in taken.prefix(2) { close(descriptor) }
                let error = try await Sending(request, over: transport).error()
                #expect((error.underlying as? POSIXError)?.code == .ECONNREFUSED, "\(error)")
                #expect(RequestError.shortage(needing: 2) == nil)
                // More than two may be free now, because libcurl may have closed the first connection later.
                #expect((RequestError.shortage(needing: 16)?.underlying as? POSIXError)?.code == .EMFILE)
            }
        }

        /// libdispatch traps if it creates its first timer without a free descriptor.
        @Test func timersOfAManagerNeedNoDescriptorLater() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let manager = RequestManager()
                limitDescriptors(toFree: 8)
                while open("/dev/null", O_RDONLY) >= 0 {}
                await withCheckedContinuation { continuation in
                    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
                }
                _ = manager
            }
        }

        /// Downloads files and bodies into memory, in a child process.
        ///
        /// The server runs in the parent process.
        ///
        /// `free` counts only descriptors that are not open. Reused connections use some of them.
        @Test(arguments: [20, 28, 60], [0, 100])
        func everyFileComesWithFewDescriptors(free: Int, taken: Int) async throws {
            let server = try TestServer()
            server.respond { .status(200, body: String(repeating: $0.path, count: 5_000)) }
            let directory = try TemporaryDirectory()
            await #expect(processExitsWith: .success) {
                [
                    free, taken, base = server.url("/").absoluteString as String,
                    directory = directory.url.path as String
                ] in
                endProcessIfStuck()
                for _ in 0..<taken { _ = open("/dev/null", O_RDONLY) }
                do {
                    try await DescriptorShortageTests.fetch(from: base, into: directory, freeDescriptors: free)
                } catch {
                    // A thrown error would end the child process by a signal, without a message.
                    Issue.record(error, "\(openFiles())")
                }
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).count == 100)
        }

        fileprivate static func fetch(from base: String, into directory: String, freeDescriptors: Int) async throws {
            var configuration = RequestManager.Configuration(
                maxConcurrentOperationCount: 64, maxConcurrentPerHost: 64)
            configuration.retries = .never
            // The limit is set before the first request. That request determines the number of idle connections that
            // stay open.
            limitDescriptors(toFree: freeDescriptors)
            let manager = RequestManager(configuration: configuration)
            _ = try await manager.send(Request<Data>.get(base + "first"))
            let files = manager.batch(
                (0..<100).map { Request<Data>.get(base + "\($0)").saved(to: URL(filePath: directory + "/\($0)")) })
            let bodies = manager.batch((0..<100).map { Request<Data>.get(base + "\($0)") })
            let (fileResults, bodyResults) = (await files.results, await bodies.results)
            for result in fileResults {
                let file = try result.get().value
                #expect(
                    try Data(contentsOf: file)
                        == Data(String(repeating: "/" + file.lastPathComponent, count: 5_000).utf8))
            }
            for (index, result) in bodyResults.enumerated() {
                #expect(try result.get().value == Data(String(repeating: "/\(index)", count: 5_000).utf8))
            }
        }
    #endif
}
