// Disk stores, and what tests do with them.
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyCache

extension TemporaryDirectory {
    func makeStore(
        capacity: Int64 = 10_000_000, gatherTime: DispatchTimeInterval = .milliseconds(10),
        mostLockWait: Duration = .seconds(2)
    ) -> DiskStore {
        DiskStore(
            directory: file("cache"), capacity: capacity, mostEntryBytes: capacity, gatherTime: gatherTime,
            mostLockWait: mostLockWait)
    }

    /// Stores a response by a store of its own.
    func fill(_ key: String = "a", _ body: Data = .test(1, 100)) {
        let store = makeStore()
        store.put(key, body)
        #expect(store.counts.entryCount == 1)
    }

    /// Another connection to the index.
    func index() throws -> SQLiteConnection { try SQLiteConnection(file("cache/convoy-cache.sqlite").path) }
}

extension StoredHead {
    static func test(_ key: String, _ byteCount: Int) -> StoredHead {
        var head = StoredHead(
            key: key, statusCode: 200, headerFields: ["Cache-Control": "max-age=60", "X": "ä"], requestTime: 5,
            responseTime: 6, vary: VaryKey(fields: ["foo": "1", "bar": nil]), credentials: nil)
        (head.bodyBytes, head.totalBytes) = (Int64(byteCount), Int64(byteCount))
        return head
    }
}

extension Data {
    /// Bytes that differ from those of other numbers.
    static func test(_ number: Int, _ count: Int) -> Data {
        let block = Data((0..<256).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ number) })
        var body = Data(capacity: count + block.count)
        while body.count < count { body += block }
        return body.prefix(count)
    }
}

extension CacheStore {
    /// Stores a response in pieces of 10,000 bytes, in place of the others of its key.
    func put(_ key: String, _ body: Data = Data("x".utf8)) {
        guard let writer = makeWriter(expectedBytes: nil) else { return }
        var rest = body[...]
        while !rest.isEmpty {
            guard writer.write(Data(rest.prefix(10_000))) else { return writer.discard() }
            rest = rest.dropFirst(10_000)
        }
        writer.commit(.test(key, body.count)) { _ in true }
    }

    func read(_ key: String) -> Data? {
        guard let entry = entries(for: key).first, let body = openBody(of: entry, key: key) else { return nil }
        return body.read(at: 0, count: Int(body.byteCount))
    }
}
