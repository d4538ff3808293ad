// A loop for work that leads to more work of its kind, instead of recursion.
import Foundation

/// A failing or released chain of 100,000 operations would overflow the stack.
enum Trampoline {
    private final class Pending {
        var work: [(() -> Void)?] = []

        func run() {
            var next = 0
            while next < work.count {
                // May append further work. Moved out of the list, so that what it holds is released before the next.
                let piece = work[next]
                work[next] = nil
                next += 1
                piece?()
            }
        }
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
        current.with(pending) { pending.run() }
    }
}
