// The libc calls and system calls of a small request.
import ArgumentParser
import Foundation

/// `cost`: locks, allocations and system calls of one request.
struct CostCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cost", abstract: "Locks, allocations and system calls of one small request.",
        discussion: """
            Each figure is the difference of two runs of different length, divided by the requests that the longer one sends \
            more: what start-up and warm-up take drops out. Locks (pthread mutexes and read-write locks) and allocations \
            are counted by a library that is preloaded; they differ little from run to run and hardly with the machine's \
            load. System calls are counted by strace where it is installed, in runs a third as long, because it slows \
            them down; futex and poll (ppoll and epoll_wait too) are among them, are waits and wake-ups, and do depend on \
            the load. What the server does is not counted. Linux only.

            Subjects: \(RequestSubject.descriptions)

            With --json: locks_per_request, allocations_per_request, and with strace syscalls_per_request, \
            futex_calls_per_request and poll_calls_per_request; count is the length of the longer run.
            """)

    @Option(help: "Requests of the longer run; the shorter one sends a sixth.")
    var count = 12_000

    @Option(help: "The subjects that are measured, separated by commas.")
    var subjects = CommaList(elements: RequestSubject.allCases.filter { $0 != .urlSession })

    @OptionGroup var requests: RequestOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        guard RequestCost.isPossible else {
            throw ValidationError("cost preloads a library and runs strace: Linux only.")
        }
        if count < 100 { throw ValidationError("--count must be at least 100.") }
    }

    func run() async throws {
        let cost = try RequestCost(runner: Runner(options: common))
        try await requests.server.withServer { url, server in
            let specs = try await requests.specs(.cost, subjects.elements, count: count, url)
            var results = cost.runner.run(specs, measuring: cost.measure)
            for index in results.indices { results[index].server = server }
            var lines = [
                """
                One GET request of \((count - count / RequestCost.shortening).figure), \
                bodies of \(specs.first?.bodyBytes.figure ?? "-") bytes, median of \(common.rounds) round(s)
                """,
                "server: \(ServerOptions.describe(server))",
                "columns with a colon: locks and allocations in multiples of that subject's",
            ]
            if let note = cost.note {
                lines.append(note)
                if common.json { write(note + "\n", to: .error) }
            }
            try Report(results, isJSON: common.json).print(heading: lines.joined(separator: "\n")) { table(results) }
        }
    }

    private func table(_ results: [Measurement]) -> Table {
        let peers = subjects.elements.map(\.rawValue).filter { !$0.hasPrefix("convoy") }
        var table = Table(
            ["subject", "HTTP", "in flight", "locks", "allocations", "system calls", "futex", "poll", "errors"]
                + peers.map { ": \($0)" })
        for result in results {
            let calls = [
                result.locksPerRequest, result.allocationsPerRequest, result.systemCallsPerRequest,
                result.futexCallsPerRequest, result.pollCallsPerRequest,
            ]
            table.add(
                [result.subject, result.http ?? "-", result.concurrency?.figure ?? "-"]
                    + calls.map { $0.map(text) ?? "-" } + [result.errors.figure]
                    + peers.map { name in
                        let peer = results.peer(name, of: result)
                        let locks = ratio(result.locksPerRequest, to: peer?.locksPerRequest)
                        return "\(locks), \(ratio(result.allocationsPerRequest, to: peer?.allocationsPerRequest))"
                    })
        }
        return table
    }

    // Two runs differ slightly, so a subject without calls may have a small negative number. The table shows it as 0.
    private func text(_ calls: Double) -> String { String(format: "%.1f", max(0, calls)) }
}
