// Additions of several callers that are committed together.
import Convoy

/// A group commit: callers that arrive while a commit is under way go together in the next one.
///
/// The first goes at once and alone. Each caller hears what became of its own jobs.
final class AdditionGroup: Sendable {
    typealias Outcome = Result<[JobAddition], QueueError>

    /// One caller of `add`.
    struct Call {
        let jobs: [Job]
        let byteCount: Int
        let continuation: CheckedContinuation<Outcome, Never>
    }

    struct State {
        /// Those that wait for the commit that is under way.
        var calls: [Call] = []
        var isCommitting = false
    }

    /// How many jobs, and bytes of bodies, go together at most; a list that is longer goes alone.
    private static let (maxJobCount, maxByteCount) = (1_000, 8 << 20)

    let state = Locked(State())
    /// Commits the lists of several callers, and calls back with an outcome for each.
    private let commit: @Sendable (_ lists: [[Job]], _ done: @escaping @Sendable ([Outcome]) -> Void) -> Void

    init(commit: @escaping @Sendable (_ lists: [[Job]], _ done: @escaping @Sendable ([Outcome]) -> Void) -> Void) {
        self.commit = commit
    }

    /// Adds jobs, all or none.
    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        let byteCount = jobs.reduce(0) { sum, job in
            if case .data(let data)? = job.request.body { sum + data.count } else { sum }
        }
        let outcome = await withCheckedContinuation { continuation in
            let isFirst = state.withLock { state in
                state.calls.append(Call(jobs: jobs, byteCount: byteCount, continuation: continuation))
                defer { state.isCommitting = true }
                return !state.isCommitting
            }
            if isFirst { commitNext() }
        }
        return try outcome.get()
    }

    private func commitNext() {
        let calls = state.withLock { state in
            var (count, jobCount, byteCount) = (0, 0, 0)
            for call in state.calls {
                (jobCount, byteCount) = (jobCount + call.jobs.count, byteCount + call.byteCount)
                if count > 0, jobCount > Self.maxJobCount || byteCount > Self.maxByteCount { break }
                count += 1
            }
            defer { state.calls.removeFirst(count) }
            return Array(state.calls.prefix(count))
        }
        commit(calls.map(\.jobs)) { outcomes in
            for (call, outcome) in zip(calls, outcomes) { call.continuation.resume(returning: outcome) }
            let isOver = self.state.withLock { state in
                state.isCommitting = !state.calls.isEmpty
                return !state.isCommitting
            }
            // In a task, behind those that were just resumed: what they add now goes along.
            if !isOver { Task { self.commitNext() } }
        }
    }
}
