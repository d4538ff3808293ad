// A loop for work that leads to more work of its kind, instead of recursion.
import Foundation

/// A failing or released chain of 100,000 operations would overflow the stack.
enum Trampoline {
    private final class Pending {
        var work: [(() -> Void)?] = []
        var objects: [AnyObject?] = []

        func run() {
            var (nextWork, nextObject) = (0, 0)
            while nextWork < work.count || nextObject < objects.count {
                if nextObject < objects.count {
                    // The object is released at the end of this iteration. Its release may append further objects to
                    // the list. So the object is first moved out of the list.
                    let object = objects[nextObject]
                    objects[nextObject] = nil
                    nextObject += 1
                    withExtendedLifetime(object) {}
                } else {
                    let next = work[nextWork]
                    work[nextWork] = nil
                    nextWork += 1
                    next?()
                }
            }
        }
    }

    private static let current = ThreadSlot<Pending>()

    /// If `run` or `release` is in progress on the same thread, that call runs the work later, in order.
    static func run(_ work: @escaping () -> Void) {
        begin { $0.work.append(work) }
    }

    // If `run` or `release` is in progress on the same thread, that call releases the objects later, in order.
    // `objects` is empty afterwards, so that the trampoline owns the last reference.
    static func release(_ objects: inout [AnyObject]) {
        guard !objects.isEmpty else { return }
        begin { pending in
            for object in objects { pending.objects.append(object) }
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
