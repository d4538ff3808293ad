#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Counts descriptors, threads and memory in a separate process, because other tests would change them.
    @Suite struct ResourceTests {
        @Test func descriptorsThreadsAndMemoryComeBack() async {
            await #expect(processExitsWith: .success) {
                let server = try TestServer(recording: .none)
                server.respond { _ in .body(Data(repeating: 1, count: 4_000)) }
                let directory = FileManager.default.temporaryDirectory.appendingPathComponent(
                    "convoy-\(UUID().uuidString)")
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
                defer { try? FileManager.default.removeItem(at: directory) }

                // The pools of dispatch, the transport and malloc reach their full size first.
                for _ in 0..<3 { await Self.round(server, directory) }
                let before = Resources.now
                for _ in 0..<10 { await Self.round(server, directory) }
                // Dispatch ends idle threads with a delay, so the test waits.
                await look { Resources.now.threads <= before.threads + 16 }
                let after = Resources.now
                // The transport may keep up to twelve connections open. Each has two descriptors in this process, one
                // of the client and one of the server. A leak would be thousands.
                #expect(after.descriptors <= before.descriptors + 24, "\(before) \(after)")
                #expect(after.threads <= before.threads + 16, "\(before) \(after)")
                #expect(after.residentBytes <= before.residentBytes + (16 << 20), "\(before) \(after)")
                #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).count == 100)
                server.shutDown()
            }
        }

        /// Sends 200 requests into memory and 100 downloads, and cancels 100 further requests.
        private static func round(_ server: TestServer, _ directory: URL) async {
            let manager = RequestManager()
            for index in 0..<200 { manager.enqueue(Request<Data>.get(server.url("/\(index)"))) { _ in } }
            for index in 0..<100 {
                manager.download(.get(server.url("/f")), to: directory.appendingPathComponent("\(index)"))
            }
            for index in 0..<100 { manager.enqueue(Request<Data>.get(server.url("/\(index)")).tagged("no")) }
            manager.cancelAll(tagged: "no")
            await manager.drain()
        }

        private struct Resources {
            let descriptors: Int
            let threads: Int
            let residentBytes: Int

            static var now: Resources {
                func count(_ path: String) -> Int {
                    (try? FileManager.default.contentsOfDirectory(atPath: path).count) ?? 0
                }
                let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
                return Resources(
                    descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"),
                    residentBytes: (pages?.dropFirst().first.flatMap { Int($0) } ?? 0)
                        * Int(sysconf(Int32(_SC_PAGESIZE))))
            }
        }
    }
#endif
