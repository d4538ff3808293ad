// A store on PostgreSQL for the conformance suite.
import Convoy
import Foundation

@testable import ConvoyPostgres
@testable import ConvoyQueue

extension ConformingStore {
    /// The store on PostgreSQL; empty if no server is installed, with a printed reason.
    static let postgres: [ConformingStore] = {
        guard PostgresServer.isInstalled else {
            print("The conformance of the store on PostgreSQL is not tested: \(PostgresServer.reason)")
            return []
        }
        let libraries = [("", PostgresLibrary.shared), (" by libpq 13", PostgresLibrary.withoutPipelines)]
        return libraries.map { name, library in
            ConformingStore(name: "PostgreSQL\(name)") { place in
                let address = try await ConformingStore.address(of: place)
                return try await PostgresStore(address, time: { PostgresTime(place.clock) }, library: library)
            }
        }
    }()

    /// A database with the tables of a store, for copies: a copy takes less time than creating the tables.
    private static let template = Task {
        let address = try await PostgresServer.shared().makeDatabase()
        try await PostgresStore(address).close()
        return address
    }

    private static let addresses = Locked<[URL: Task<String, any Error>]>([:])

    /// The database of a place, whichever instance opens it first.
    private static func address(of place: StorePlace) async throws -> String {
        try await addresses.withLock { addresses in
            let making =
                addresses[place.directory]
                ?? Task { try await PostgresServer.shared().makeDatabase(copying: template.value) }
            addresses[place.directory] = making
            return making
        }.value
    }
}

extension PostgresLibrary {
    /// libpq without the functions of version 14.
    static let withoutPipelines = shared.map { functions in
        var old = functions
        (old.enterPipelineMode, old.exitPipelineMode, old.pipelineSync) = (nil, nil, nil)
        return old
    }
}

extension PostgresTime {
    /// The moment that corresponds to 1,000,000,000 seconds of the store's time.
    private static let start = ContinuousClock.now

    /// The time of a virtual clock.
    init(_ clock: any RequestClock) {
        self.init(
            now: PostgresRules.microseconds(.seconds(1_000_000_000) + Self.start.duration(to: clock.now)),
            date: clock.date.timeIntervalSinceReferenceDate)
    }
}
