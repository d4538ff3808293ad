// A program that works on a queue's store. Tests run several of them, or kill one.
//
//   QueueWorker postgres ADDRESS COUNT LEASE [STOP]    claims COUNT jobs at a time and settles them until none is left;
//                                                      after STOP claimed jobs it sleeps and leaves the last unsettled
//   QueueWorker fill ADDRESS COUNT LIST             adds COUNT jobs, LIST at a time
//   QueueWorker share PLACE COUNT TASKS             adds COUNT jobs one by one from TASKS tasks; PLACE may be a file
//
// With `postgres` it prints a line for each claimed job, and a line for each settlement.
import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation

/// Adds jobs with small bodies.
func fill(_ store: any Store, count: Int, list: Int) async throws {
    let began = ContinuousClock.now
    for start in stride(from: 0, to: count, by: list) {
        _ = try await store.add((start..<min(count, start + list)).compactMap(job))
    }
    print("added \(count) in \(began.duration(to: .now))")
}

/// A job with a small body.
func job(_ number: Int) -> Job? {
    URL(string: "http://127.0.0.1/\(number)").map {
        Job("work", JobRequest(method: .post, url: $0, body: .data(Data("\(number)".utf8))))
    }
}

/// Adds jobs one by one from several tasks, and prints the number of jobs per second.
func share(_ store: any Store, count: Int, tasks: Int) async throws {
    let began = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<tasks {
            group.addTask {
                for number in stride(from: task, to: count, by: tasks) {
                    _ = try await store.add([job(number)].compactMap(\.self))
                }
            }
        }
        try await group.waitForAll()
    }
    let time = began.duration(to: .now)
    print("added \(count) from \(tasks) tasks in \(time): \(Int(Double(count) / (time / .seconds(1)))) a second")
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
        // Another process may settle its jobs, or its leases may end. The store may announce neither, so the loop
        // asks again after at most 100 ms.
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
case ("share", 2):
    let isAddress = arguments[2].hasPrefix("postgres")
    let store: any Store =
        isAddress ? try await PostgresStore(arguments[2]) : try SQLiteStore(at: URL(fileURLWithPath: arguments[2]))
    try await share(store, count: Int(numbers[0]), tasks: max(1, Int(numbers[1])))
    await store.close()
default:
    print("usage: QueueWorker postgres ADDRESS COUNT LEASE [STOP] | fill ADDRESS COUNT LIST | share PLACE COUNT TASKS")
    exit(2)
}
