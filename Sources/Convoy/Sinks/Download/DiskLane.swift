// Where a download uses the disk: in order, on threads that all downloads share.
import Foundation

/// A serial queue of one download.
///
/// Not a `DispatchQueue`: each of those has a thread woken for it, and for small files that is most of the work. What blocks
/// delays other downloads by a millisecond or two, see ``Lanes``.
///
/// ## Concurrency
/// Use it from any thread; what it is told may block.
final class DiskLane: LaneMember {
    /// Where all of them run.
    static let lanes = Lanes(extraWorkers: .disk)

    private let work = Locked(LaneWork())

    /// Runs something behind what it was told before.
    func async(_ piece: @escaping @Sendable () -> Void) {
        if work.withLock({ $0.add(piece) }) { Self.lanes.submit(self) }
    }

    /// Runs something behind what it was told before, and not before it is told something else.
    func beforeNext(_ piece: @escaping @Sendable () -> Void) { work.withLock { $0.put(piece) } }

    /// Returns when something has run, behind what it was told before; never called on a lane.
    func sync(_ piece: @escaping @Sendable () -> Void) {
        let hasRun = DispatchSemaphore(value: 0)
        async {
            piece()
            hasRun.signal()
        }
        hasRun.wait()
    }

    func runLane() {
        while let pieces = work.withLock({ $0.take() }) {
            for piece in pieces { piece() }
        }
    }
}
