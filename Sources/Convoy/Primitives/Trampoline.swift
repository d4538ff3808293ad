// A loop for work that leads to more work of its kind, instead of recursion.
import Foundation

/// A failing or released chain of 100,000 operations would overflow the stack.
enum Trampoline {
    private final class Pending {
        var work = Fifo<() -> Void>()
    }

    private static let current = ThreadSlot<Pending>()

    /// If `run` or `release` is in progress on the same thread, that call runs the work later, in order.
    static func run(_ work: @escaping () -> Void) { begin { $0.work.append(work) } }

    // If `run` or `release` is in progress on the same thread, that call releases the objects later, in order.
    // `objects` is empty afterwards, so that the trampoline owns the last reference.
    static func release(_ objects: inout [AnyObject]) {
        guard !objects.isEmpty else { return }
        begin { pending in
            for object in objects { pending.work.append { withExtendedLifetime(object) {} } }
            objects = []
        }
    }

    private static func begin(_ add: (Pending) -> Void) {
        if let pending = current.value { return add(pending) }
        let pending = Pending()
        add(pending)
        current.with(pending) {
            // A piece may append further work. What it holds is released before the next piece.
            while let piece = pending.work.popFirst() { piece() }
        }
    }
}
