// A process that works on a queue's store, for tests that need several of them or end one.
//
//   QueueWorker postgres ADDRESS COUNT LEASE [STOP]    claims COUNT jobs at a time and settles them until none is left;
//                                                      with STOP jobs claimed it stands still, and holds the last ones
//   QueueWorker fill ADDRESS COUNT LIST             adds COUNT jobs, LIST at a time
//
// It prints a line for each job that it has claimed and for each that it has settled.
import Convoy
import ConvoyQueue
import Foundation

/// Adds jobs with small bodies.
func fill(_ store: any Store, count: Int, list: Int) async throws {
    let began = ContinuousClock.now
    for start in stride(from: 0, to: count, by: list) {
        let jobs = (start..<min(count, start + list)).compactMap { number in
            URL(string: "http://127.0.0.1/\(number)").map {
                Job("work", JobRequest(method: .post, url: $0, body: .data(Data("\(number)".utf8))))
            }
        }
        _ = try await store.add(jobs)
    }
    print("added \(count) in \(began.duration(to: .now))")
}

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
let numbers = arguments.dropFirst(3).map { Double($0) ?? 0 }
switch (arguments.dropFirst().first, numbers.count) {
case ("postgres", 2...3):
    let store = try await PostgresStore(arguments[2])
    try await work(
        on: store, count: Int(numbers[0]), lease: .seconds(numbers[1]),
        stop: numbers.count == 3 ? Int(numbers[2]) : .max)
    await store.close()
case ("fill", 2):
    let store = try await PostgresStore(arguments[2])
    try await fill(store, count: Int(numbers[0]), list: Int(numbers[1]))
    await store.close()
default:
    print("usage: QueueWorker postgres ADDRESS COUNT LEASE [STOP] | fill ADDRESS COUNT LIST")
    exit(2)
}
