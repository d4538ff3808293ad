// The stores that the conformance suite tests.
import Convoy
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// A kind of store, with which every test of ``StoreConformanceTests`` runs.
struct ConformingStore: Sendable, CustomTestStringConvertible {
    let name: String
    /// Opens another store instance for the jobs of one test.
    let open: @Sendable (StorePlace) async throws -> any Store

    /// All kinds of stores; add a new kind here.
    static let all =
        [ConformingStore(name: "SQLite") { try SQLiteStore(at: $0.file, clock: $0.clock) }] + postgres

    var testDescription: String { name }
}

/// The jobs of one test, for all store instances.
final class StorePlace: Sendable {
    let directory: URL
    let clock = VirtualClock()

    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "convoy-queue-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    var file: URL { directory.appending(path: "jobs.db") }
}
