// A process that works on a queue's store, for tests that need several of them or end one.
//
//   QueueWorker postgres ADDRESS COUNT LEASE [STOP]    claims COUNT jobs at a time and settles them until none is left;
//                                                      with STOP jobs claimed it stands still, and holds the last ones
//
// It prints a line for each job that it has claimed and for each that it has settled.
import Convoy
import ConvoyQueue
import Foundation

/// Claims and settles until no job is unfinished.
func work(on store: any Store, count: Int, lease: Duration, stop: Int) async throws {
    var claimed = 0
    var settlements: [Settlement] = []
    while true {
        let exchange = try await store.exchange(settlements, claiming: ClaimRequest(limit: count, lease: lease))
        for (settlement, isSettled) in zip(settlements, exchange.isSettled) {
            print("settled", settlement.claim.id, isSettled)
        }
        for job in exchange.jobs { print("claimed", job.claim.id, job.claim.token) }
        fflush(nil)
        claimed += exchange.jobs.count
        if claimed >= stop { try await Task.sleep(for: .seconds(900)) }
        settlements = exchange.jobs.map { Settlement($0.claim, .done) }
        guard exchange.jobs.isEmpty else { continue }
        if try await store.status().unfinishedCount == 0 { return }
        // What others have claimed is theirs until it is settled or their lease ends; neither may be told.
        try await Task.sleep(for: min(exchange.next ?? .milliseconds(100), .milliseconds(100)))
    }
}

let arguments = CommandLine.arguments
guard arguments.count >= 5, arguments[1] == "postgres", let count = Int(arguments[3]), let lease = Double(arguments[4])
else {
    print("usage: QueueWorker postgres ADDRESS COUNT LEASE [STOP]")
    exit(2)
}
let store = try await PostgresStore(arguments[2])
let stop = arguments.dropFirst(5).first.flatMap { Int($0) } ?? .max
try await work(on: store, count: count, lease: .seconds(lease), stop: stop)
await store.close()
