import Convoy

/// Calls that arrive during a commit share the next one; a call that finds no commit in progress is committed at once.
package final class AdditionGroup: Sendable {
    package typealias Outcome = Result<[JobAddition], QueueError>

    package typealias Commit = @Sendable (_ lists: [[Job]], _ done: @escaping @Sendable ([Outcome]) -> Void) -> Void

    struct Call {
        let jobs: [Job]
        let continuation: CheckedContinuation<Outcome, Never>
        var byteCount: Int { jobs.reduce(0) { $0 + ($1.request.body?.data?.count ?? 0) } }
    }

    struct State {
        var calls: [Call] = []
        var isCommitting = false
    }

    /// A list that alone exceeds a maximum is committed without other lists.
    private static let (maxJobCount, maxByteCount) = (1_000, 8 << 20)

    let state = Locked(State())
    private let commit: Commit

    package init(commit: @escaping Commit) { self.commit = commit }

    package func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        let outcome = await withCheckedContinuation { continuation in
            let isFirst = state.withLock { state in
                state.calls.append(Call(jobs: jobs, continuation: continuation))
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
            // The next commit starts in a new task, so that the resumed callers can add jobs to it.
            if !isOver { Task { self.commitNext() } }
        }
    }
}
