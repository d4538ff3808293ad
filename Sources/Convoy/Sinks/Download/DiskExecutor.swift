// The serial executor for the disk operations of a download. All downloads share its threads.
import Foundation

/// A serial executor for one download.
///
/// The type does not use a `DispatchQueue`, because each queue wakes a thread. For a small file, that costs more than
/// all other work. Blocking code delays other downloads by about four milliseconds, see ``ExecutorPool``.
///
/// ## Concurrency
/// Any thread may use an executor. The executor's code may block.
final class DiskExecutor: ExecutorMember {
    /// The pool of threads that all downloads share.
    static let executors = ExecutorPool(extraWorkers: .disk)

    private let work = Locked(ExecutorWork())

    /// Runs code after the code that was added before.
    ///
    /// - Parameter isFirst: whether an idle executor runs the code before the code of other downloads.
    func async(isFirst: Bool = false, _ piece: @escaping @Sendable () -> Void) {
        if work.withLock({ $0.add(piece) }) { Self.executors.submit(self, isFirst: isFirst) }
    }

    /// Adds code without starting the executor.
    ///
    /// If the executor is idle, the code waits until `async(_:)` adds more code.
    func beforeNext(_ piece: @escaping @Sendable () -> Void) { work.withLock { $0.put(piece) } }

    /// Runs code after the code that was added before, and waits for it.
    ///
    /// Code that runs on an executor must not call this method, because it could wait for itself.
    func sync(_ piece: @escaping @Sendable () -> Void) {
        let hasRun = DispatchSemaphore(value: 0)
        async {
            piece()
            hasRun.signal()
        }
        hasRun.wait()
    }

    func runExecutor() {
        while let pieces = work.withLock({ $0.take() }) {
            for piece in pieces { piece() }
        }
    }
}
