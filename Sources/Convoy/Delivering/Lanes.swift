// Where user code of operations runs: serial queues, lent for as long as there is something to run.
import Foundation

/// The queues that run callbacks, decoders and builders of one manager's operations.
///
/// An operation borrows a lane for its first piece of user code and gives it back after the last one queued; so its own
/// code runs in order, and a piece that blocks holds up no other operation. Serial queues get threads of their own from
/// the system; the lanes are few when user code is brief, and as many as there are blocked operations otherwise.
final class Lanes: Sendable {
    private struct State {
        var idle: [DispatchQueue] = []
        var count = 0
    }

    private let state = Locked(State())

    func take() -> DispatchQueue {
        let (idle, number) = state.withLock { state -> (DispatchQueue?, Int) in
            // The last one given back: its thread is awake.
            if let lane = state.idle.popLast() { return (lane, 0) }
            state.count += 1
            return (nil, state.count)
        }
        return idle ?? DispatchQueue(label: "convoy.lane.\(number)")
    }

    func giveBack(_ lane: DispatchQueue) {
        state.withLock { $0.idle.append(lane) }
    }
}

/// The lane an operation has borrowed.
struct BorrowedLane {
    var lane: DispatchQueue?
    /// What has been queued there and has not returned.
    var uses = 0

    /// Counts a use; the result is the lane to use, or nil when none is borrowed.
    mutating func use() -> DispatchQueue? {
        if lane != nil { uses += 1 }
        return lane
    }

    /// Counts a return; the result is the lane to give back, after the last one.
    mutating func unuse() -> DispatchQueue? {
        uses -= 1
        guard uses == 0 else { return nil }
        defer { lane = nil }
        return lane
    }
}

extension AnyRequestOperation {
    /// Runs something of the user's, after what was asked for before, on a lane of the operation's own.
    func onLane(_ work: @escaping @Sendable () -> Void) {
        let lane = state.withLock { $0.lane.use() } ?? borrowLane()
        lane.async {
            work()
            if let lane = self.state.withLock({ $0.lane.unuse() }) { self.context.lanes.giveBack(lane) }
        }
    }

    private func borrowLane() -> DispatchQueue {
        let taken = context.lanes.take()
        let (lane, surplus) = state.withLock { state -> (DispatchQueue, DispatchQueue?) in
            // Another thread may have borrowed one since.
            if let lane = state.lane.use() { return (lane, taken) }
            state.lane = BorrowedLane(lane: taken, uses: 1)
            return (taken, nil)
        }
        if let surplus { context.lanes.giveBack(surplus) }
        return lane
    }
}
