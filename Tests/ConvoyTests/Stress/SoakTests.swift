#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Runs twelve kinds of traffic for the given time, in a separate process: no measured value may grow.
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

    /// The resources of a process.
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
