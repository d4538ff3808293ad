// Work that leads to more work of its kind, in a loop instead of in ever deeper calls.
import Foundation

/// Flattens what would recurse: a failing chain of 100,000 operations, or one that is freed, would overflow the stack.
enum Trampoline {
    private final class Pending {
        var work: [(() -> Void)?] = []
        var objects: [AnyObject?] = []
    }

    private static let key = "convoy.cascade"

    /// Runs work at once, or, inside other work on the same thread, as soon as that has returned.
    static func run(_ work: @escaping () -> Void) {
        begin { $0.work.append(work) }
    }

    /// Lets go of objects at once, or, inside a cascade on the same thread, as soon as the work before has returned.
    ///
    /// - Parameter objects: what to let go of; empty afterwards, so that the cascade holds the last reference.
    static func release(_ objects: inout [AnyObject]) {
        guard !objects.isEmpty else { return }
        begin { pending in
            for object in objects { pending.objects.append(object) }
            objects = []
        }
    }

    private static func begin(_ add: (Pending) -> Void) {
        let local = Thread.current.threadDictionary
        if let pending = local[key] as? Pending { return add(pending) }
        let pending = Pending()
        local[key] = pending
        defer { local[key] = nil }
        add(pending)
        var (nextWork, nextObject) = (0, 0)
        while nextWork < pending.work.count || nextObject < pending.objects.count {
            if nextObject < pending.objects.count {
                // The last reference goes at the end of this turn: what that leads to joins the list, which must not be
                // in the middle of a change then.
                let object = pending.objects[nextObject]
                pending.objects[nextObject] = nil
                nextObject += 1
                withExtendedLifetime(object) {}
            } else {
                let work = pending.work[nextWork]
                pending.work[nextWork] = nil
                nextWork += 1
                work?()
            }
        }
    }
}
