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
        return [
            ConformingStore(name: "PostgreSQL") { place in
                let address = try await PostgresPlaces.shared.address(of: place)
                return try await PostgresStore(address, time: { PostgresTime(place.clock) })
            },
            ConformingStore(name: "PostgreSQL by libpq 13") { place in
                let address = try await PostgresPlaces.shared.address(of: place)
                return try await PostgresStore(
                    address, time: { PostgresTime(place.clock) }, library: PostgresLibrary.withoutPipelines)
            },
        ]
    }()
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

/// Creates one database for each place, whichever instance opens it first.
private actor PostgresPlaces {
    static let shared = PostgresPlaces()
    /// A database with the tables of a store.
    ///
    /// Each test's database is a copy of this one, because a copy takes less time than creating the tables.
    private static let template = Task {
        let address = try await PostgresServer.shared().makeDatabase()
        try await PostgresStore(address).close()
        return address
    }

    private var addresses: [URL: Task<String, any Error>] = [:]

    func address(of place: StorePlace) async throws -> String {
        let making =
            addresses[place.directory]
            ?? Task { try await PostgresServer.shared().makeDatabase(copying: Self.template.value) }
        addresses[place.directory] = making
        return try await making.value
    }
}
