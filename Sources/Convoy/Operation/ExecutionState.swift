// The state of an operation from its start.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The part of an operation's state that most queued operations lack; made when the first value is set.
///
/// Used only under the operation's lock. The class is not `Sendable`, so the compiler prevents its use outside the
/// lock.
final class ExecutionState {
    // `@exclusivity(unchecked)` is safe, because the operation's lock excludes other accesses.
    @exclusivity(unchecked) var timings: Timings
    @exclusivity(unchecked) var progress: TransferProgress
    @exclusivity(unchecked) var transfer: Transfer?

    init(timings: Timings, progress: TransferProgress) { (self.timings, self.progress) = (timings, progress) }
}

struct Transfer {
    let attempt: Attempt
    let task: any TransferTask
    /// The `URLSessionTask`, once the caller has asked for it.
    var sessionTask: URLSessionTask?
    /// How often the task was resumed or paused; the number orders the reports to the stall detector.
    var runningChanges: UInt32 = 0
}

extension OperationState {
    var timings: Timings {
        get {
            if let execution { return execution.timings }
            var timings = Timings()
            timings.queuedMoment = queuedMoment
            return timings
        }
        _modify { yield &makeExecution().timings }
    }

    var progress: TransferProgress {
        get {
            execution?.progress ?? TransferProgress(upload: ByteProgress(totalBytes: prepared?.body?.byteCount))
        }
        _modify { yield &makeExecution().progress }
    }

    var transfer: Transfer? {
        get { execution?.transfer }
        _modify { yield &makeExecution().transfer }
    }

    private mutating func makeExecution() -> ExecutionState {
        if let execution { return execution }
        let made = ExecutionState(timings: timings, progress: progress)
        execution = made
        return made
    }
}
