// Computes the calls of one request from the calls of complete processes.
import Foundation

/// Counts the calls of one request as the difference of two runs of different length.
struct RequestCost {
    /// The ratio of the requests in the longer run to those in the shorter run.
    static let shortening = 6
    /// The factor by which runs under strace are shorter, because strace slows requests down.
    private static let shorteningUnderTracer = 3

    let runner: Runner
    private let counter: CallCounter
    private let tracer: SystemCallTracer?
    /// Why system calls are not counted; nil if they are.
    let note: String?

    /// Whether this platform can preload a library and trace system calls.
    static var isPossible: Bool {
        #if os(Linux)
            true
        #else
            false
        #endif
    }

    /// - Throws: if the library that counts has not been built.
    init(runner: Runner) throws {
        self.runner = runner
        counter = try CallCounter()
        do {
            (tracer, note) = (try SystemCallTracer(), nil)
        } catch {
            (tracer, note) = (nil, "system calls are not counted: \(error)")
        }
    }

    /// Measures a case once.
    func measure(_ spec: CaseSpec) throws -> [Measurement] {
        var result = Measurement(spec)
        let calls = try perRequest(spec, &result) { try counter.count($0, runner) }
        result.locksPerRequest = calls["locks", default: 0]
        result.allocationsPerRequest = calls["allocations", default: 0]
        guard let tracer else { return [result] }
        var traced = spec
        traced.count = spec.count / Self.shorteningUnderTracer
        let systemCalls = try perRequest(traced, &result) { try tracer.count($0, runner) }
        func sum(_ names: String...) -> Double { names.reduce(0) { $0 + systemCalls[$1, default: 0] } }
        result.systemCallsPerRequest = systemCalls.values.reduce(0, +)
        result.futexCallsPerRequest = sum("futex")
        result.pollCallsPerRequest = sum("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2")
        return [result]
    }

    private func perRequest(
        _ spec: CaseSpec, _ result: inout Measurement, _ count: (CaseSpec) throws -> CallCount
    ) throws -> [String: Double] {
        var shorter = spec
        shorter.count = spec.count / Self.shortening
        let (few, many) = (try count(shorter), try count(spec))
        for run in few.run + many.run {
            result.errors += run.errors
            if result.firstError == nil { result.firstError = run.firstError }
        }
        return many.calls.merging(few.calls.mapValues { -$0 }, uniquingKeysWith: +)
            .mapValues { Double($0) / Double(spec.count - shorter.count) }
    }
}

/// The calls of a child process by name, and the measurements that the child printed.
struct CallCount {
    var calls: [String: Int]
    var run: [Measurement]
}

extension URL {
    /// Calls `work` with the URL of a file that does not exist, and removes the file afterwards.
    static func withTemporaryFile<Value>(_ work: (URL) throws -> Value) rethrows -> Value {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-bench-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        return try work(file)
    }
}
