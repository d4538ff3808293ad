#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Runs all kinds of `SoakTraffic` for the given time, in a separate process: no measured value may grow.
    ///
    /// `CONVOY_SOAK` in the environment is the time in seconds; below 60, the measurements are not compared.
    /// `CONVOY_SOAK_REPORT` is an existing file that gets about twenty lines of measurements.
    @Suite struct SoakTests {
        private static let time = ProcessInfo.processInfo.environment["CONVOY_SOAK"].flatMap { Double($0) }

        @Test func memoryDescriptorsAndThreadsLevelOff() async throws {
            let server = try TestServer(recording: .none)
            SoakTraffic.serve(on: server)
            await #expect(processExitsWith: .success) {
                [base = server.url("/").absoluteString as String, seconds = (Self.time ?? 0) as Double] in
                endProcessIfStuck(after: 120 + Int(seconds))
                let directory = try TemporaryDirectory()
                let traffic = SoakTraffic(base: base, directory: directory.url)
                let report = ProcessInfo.processInfo.environment["CONVOY_SOAK_REPORT"]
                var samples: [ProcessFigures] = []
                let start = ContinuousClock.now
                let interval = Duration.seconds(max(1, seconds / 20))
                var (rounds, due) = (0, start)
                repeat {
                    await traffic.round()
                    rounds += 1
                    guard due <= .now else { continue }
                    due += interval
                    samples.append(.now)
                    let line = "\(ContinuousClock.now - start): \(rounds) rounds, \(ProcessFigures.now)\n"
                    if let report, let file = FileHandle(forWritingAtPath: report) {
                        try file.seekToEnd()
                        try file.write(contentsOf: Data(line.utf8))
                    }
                } while rounds < 2 || ContinuousClock.now - start < .seconds(seconds)
                #expect(traffic.failures.withLock { $0 } == [:])
                // In the first half, pools fill and memory becomes fragmented. So the test compares the last quarter
                // with the third.
                guard seconds >= 60 else { return }
                let (third, last) = (samples[10..<15], samples[15..<20])
                #expect(last.median(\.residentBytes) <= third.median(\.residentBytes) + (1 << 20), "\(samples)")
                #expect(last.median(\.descriptors) <= third.median(\.descriptors) + 8, "\(samples)")
                #expect(last.median(\.threads) <= third.median(\.threads) + 8, "\(samples)")
            }
            server.shutDown()
        }
    }

    /// Counts descriptors, threads and memory in a separate process, because other tests would change them.
    @Suite struct ResourceTests {
        @Test func descriptorsThreadsAndMemoryComeBack() async {
            await #expect(processExitsWith: .success) {
                let server = try TestServer(recording: .none)
                server.respond { _ in .body(Data(repeating: 1, count: 4_000)) }
                let directory = try TemporaryDirectory()
                // The pools of dispatch, the transport and malloc reach their full size first.
                for _ in 0..<3 { await Self.round(server, directory) }
                let before = ProcessFigures.now
                for _ in 0..<10 { await Self.round(server, directory) }
                // Dispatch ends idle threads with a delay, so the test waits.
                await look { ProcessFigures.now.threads <= before.threads + 16 }
                let after = ProcessFigures.now
                // The transport may keep up to twelve connections open. Each has two descriptors in this process, one
                // of the client and one of the server. A leak would be thousands.
                #expect(after.descriptors <= before.descriptors + 24, "\(before) \(after)")
                #expect(after.threads <= before.threads + 16, "\(before) \(after)")
                #expect(after.residentBytes <= before.residentBytes + (16 << 20), "\(before) \(after)")
                #expect(try directory.entries.count == 100)
                server.shutDown()
            }
        }

        /// Sends 200 requests into memory and 100 downloads, and cancels 100 further requests.
        private static func round(_ server: TestServer, _ directory: TemporaryDirectory) async {
            let manager = RequestManager()
            for index in 0..<200 { manager.enqueue(Request<Data>.get(server.url("/\(index)"))) { _ in } }
            for index in 0..<100 { manager.download(.get(server.url("/f")), to: directory.file("\(index)")) }
            for index in 0..<100 { manager.enqueue(Request<Data>.get(server.url("/\(index)")).tagged("no")) }
            manager.cancelAll(tagged: "no")
            await manager.drain()
        }
    }

    struct ProcessFigures: CustomStringConvertible {
        let descriptors: Int
        let threads: Int
        let residentBytes: Int

        static var now: ProcessFigures {
            func count(_ path: String) -> Int {
                (try? FileManager.default.contentsOfDirectory(atPath: path).count) ?? 0
            }
            let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
            return ProcessFigures(
                descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"),
                residentBytes: (pages?.dropFirst().first.flatMap { Int($0) } ?? 0)
                    * Int(sysconf(Int32(_SC_PAGESIZE))))
        }

        var description: String { "\(residentBytes >> 10) KiB, \(descriptors) descriptors, \(threads) threads" }
    }

    extension Collection where Element == ProcessFigures {
        fileprivate func median(_ figure: KeyPath<ProcessFigures, Int>) -> Int {
            map { $0[keyPath: figure] }.sorted()[count / 2]
        }
    }
#endif
