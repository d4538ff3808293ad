import Convoy
import Foundation
import Testing

@testable import ConvoyCache

@Suite(.timeLimit(.minutes(5)))
struct DiskStoreRaceTests {
    private static func store(_ store: any CacheStore, _ key: String) {
        var head = StoredHead(
            url: key, statusCode: 200, headerFields: ["Cache-Control": "max-age=60"], requestTime: 5, responseTime: 6,
            vary: VaryKey([], [:]), authorization: nil)
        (head.bodyBytes, head.totalBytes) = (1, 1)
        let writer = store.makeWriter(expectedBytes: 1)
        _ = writer?.write(Data("x".utf8))
        writer?.commit(key: key, head: head) { _ in true }
    }

    /// A second close would take the descriptor that another thread has got meanwhile.
    @Test func fileOfAnotherLengthIsClosedOnce() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("body").path
        try Data("cut".utf8).write(to: directory.file("body"))
        let lost = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for _ in 0..<60_000 {
                if thread.isMultiple(of: 2) {
                    _ = StoredFile(path: path, byteCount: 100)
                } else {
                    let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                    if descriptor >= 0, close(descriptor) != 0 { lost.withLock { $0 += 1 } }
                }
            }
        }
        #expect(lost.withLock { $0 } == 0)
    }

    @Test func changeIsSeenByTheThreadThatMadeIt() throws {
        let directory = try TemporaryDirectory()
        let store = DiskStore(directory: directory.file("cache"), capacity: 10_000_000, mostEntryBytes: 1_000_000)
        let missed = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for round in 0..<300 {
                Self.store(store, "\(thread) \(round)")
                if store.entries(for: "\(thread) \(round)").isEmpty { missed.withLock { $0 += 1 } }
            }
        }
        #expect(missed.withLock { $0 } == 0)
    }
}
