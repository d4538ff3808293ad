import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests many processes and many hosts, one of which accepts requests and never responds.
///
/// `CONVOY_HOST_JOBS=100000 CONVOY_HOSTS=1000 CONVOY_HOST_PROCESSES=10` in the environment runs as many jobs as the
/// published measurements. Then the jobs of the other hosts may take at most 1.2 times as long as without the dead
/// host.
@Suite(.serialized) struct DeadHostTests {
    private static func setting(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap(Int.init) }

    private static let jobCount = setting("CONVOY_HOST_JOBS") ?? 600
    private static let hostCount = setting("CONVOY_HOSTS") ?? 60
    private static let processCount = setting("CONVOY_HOST_PROCESSES") ?? 3

    @Test func aDeadHostDelaysNoOtherOnSQLite() async throws {
        try await compare("SQLite") {
            let place = try StorePlace()
            return (place.file.path, try SQLiteStore(at: place.file), place)
        }
    }

    @Test(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
    func aDeadHostDelaysNoOtherOnPostgres() async throws {
        try await compare("PostgreSQL") {
            let server = try await PostgresServer(isDurable: true)
            let address = try await server.makeDatabase()
            return (address, try await PostgresStore(address), server)
        }
    }

    private func compare(
        _ name: String, _ makePlace: () async throws -> (place: String, store: any Store, owner: AnyObject)
    ) async throws {
        var times: [Duration] = []
        for isDead in [false, true] {
            let (place, store, owner) = try await makePlace()
            times.append(try await time(at: place, store, hasDeadHost: isDead))
            await store.close()
            withExtendedLifetime(owner) {}
        }
        let ratio = times[1] / times[0]
        print(
            "\(name), \(Self.jobCount) jobs, \(Self.hostCount) hosts, \(Self.processCount) processes: without the dead host "
                + "\(times[0]), with it \(times[1]): \(ratio)")
        if Self.setting("CONVOY_HOST_JOBS") != nil { #expect(ratio < 1.2) }
    }

    /// The time until the jobs of all healthy hosts are done.
    private func time(at place: String, _ store: any Store, hasDeadHost: Bool) async throws -> Duration {
        let gate = Gate()
        let (healthy, dead) = (try KeyedServer(), try KeyedServer { _ in .status(200).stalling(until: gate) })
        var jobs: [Job] = []
        for number in 0..<Self.jobCount {
            let host = number % Self.hostCount
            if host == 0, !hasDeadHost { continue }
            let port = host == 0 ? dead.server.port : healthy.server.port
            let url = try #require(URL(string: "http://h\(host).localhost:\(port)/"))
            let id = "\(number)"
            jobs.append(Job("test", JobRequest(method: .post, url: url, headerFields: ["X-Job": id]), id: id))
        }
        for start in stride(from: 0, to: jobs.count, by: 10_000) {
            _ = try await store.add(Array(jobs[start..<min(start + 10_000, jobs.count)]))
        }
        let deadCount = (Self.jobCount + Self.hostCount - 1) / Self.hostCount
        let healthyCount = Self.jobCount - deadCount
        let began = ContinuousClock.now
        let workers = try (1...Self.processCount).map { _ in try ChildProcess.queue(["serve", place]) }
        try await healthy.server.requestsReceived(count: healthyCount, within: .seconds(1_800))
        try await look(within: .seconds(3_600)) { try await store.status()[.done] >= healthyCount }
        let time = began.duration(to: .now)
        for worker in workers {
            worker.send(SIGKILL)
            await worker.ended()
        }
        gate.open()
        let seen = healthy.all
        #expect(seen.keys.count == healthyCount && seen.keys.values.allSatisfy { $0.count == 1 })
        #expect(try await store.status().unfinishedCount == (hasDeadHost ? deadCount : 0))
        return time
    }
}
