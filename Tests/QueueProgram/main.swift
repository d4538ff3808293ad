// A program that the tests of ConvoyQueue run, kill and run again.
//
//   QueueProgram add FILE URL FIRST LAST    adds jobs job-FIRST to job-LAST one by one, and prints each committed id
//   QueueProgram share FILE URL FIRST LAST  adds them from six concurrent tasks, which share commits
//   QueueProgram bodies FILE COUNT          adds and reads COUNT jobs with bodies of all sizes from eight tasks
//   QueueProgram run FILE                   sends the waiting jobs, and ends
//
// FILE may be the postgres:// address of a database. With an address, leases last one second.
import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
guard arguments.count >= 2 else { exit(2) }
let manager = RequestManager(configuration: .init(maxConcurrentOperationCount: 8, maxConcurrentPerHost: 8))

@Sendable func fail(_ error: any Error) -> Never {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}

if arguments.count == 3, arguments[0] == "bodies", let count = Int(arguments[2]) {
    do {
        let store: any Store =
            arguments[1].hasPrefix("postgres:")
            ? try await PostgresStore(arguments[1]) : try SQLiteStore(at: URL(fileURLWithPath: arguments[1]))
        try await checkBodies(count, on: store)
    } catch { fail(error) }
    print("\(count) bodies are unchanged")
    exit(0)
}

let queue: DurableQueue
do {
    var configuration = DurableQueue.Configuration()
    // The tests kill the process repeatedly, and each kill counts as a lapse.
    configuration.maxLapses = 1_000_000
    if arguments[1].hasPrefix("postgres:") {
        // With a long lease, other processes notice a killed process late.
        configuration.lease = .seconds(1)
        queue = DurableQueue(
            store: try await PostgresStore(arguments[1]), manager: manager, configuration: configuration)
    } else {
        queue = try DurableQueue(at: URL(fileURLWithPath: arguments[1]), manager: manager, configuration: configuration)
    }
} catch { fail(error) }
switch (arguments[0], arguments.count) {
case ("add", 5), ("share", 5):
    guard let url = URL(string: arguments[2]), let first = Int(arguments[3]), let last = Int(arguments[4]) else {
        exit(2)
    }
    @Sendable func add(_ number: Int) async {
        let id = "job-\(number)"
        // Some bodies are large enough to be files, and all differ.
        let body = Data(String(repeating: "\(id) ", count: number % 10 == 0 ? 12_000 : 12).utf8)
        let request = JobRequest(method: .post, url: url, headerFields: ["X-Job": id], body: .data(body))
        do { try await queue.add(Job("test", request, id: id)) } catch { fail(error) }
        FileHandle.standardOutput.write(Data("\(id)\n".utf8))
    }
    let taskCount = arguments[0] == "share" ? 6 : 1
    await withTaskGroup { group in
        for task in 0..<taskCount {
            group.addTask {
                for number in stride(from: first + task, through: last, by: taskCount) { await add(number) }
            }
        }
    }
case ("run", 2):
    queue.start(otherwise: { _, result in result.isSuccess ? .done : .fail(result.failure ?? "") })
    await queue.drain()
    await queue.close()
default: exit(2)
}
