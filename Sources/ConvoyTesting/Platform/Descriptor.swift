import Convoy
import Foundation

// A late `shutdown(2)` or `write(2)` can never use a number that the system has reused. No system call is made under
// the lock.
final class Descriptor: Sendable {
    private struct Uses: Sendable {
        var count = 0
        var isClosing = false
        var isClosed = false

        mutating func claimClose() -> Bool {
            guard isClosing, count == 0, !isClosed else { return false }
            isClosed = true
            return true
        }
    }

    /// For the owning thread; other threads call ``use(_:)``.
    let number: Int32
    private let uses = Locked(Uses())

    init(_ number: Int32) { self.number = number }

    deinit {
        close()
    }

    /// Does nothing after ``close()``.
    func use(_ body: (Int32) -> Void) {
        let isOpen = uses.withLock { uses in
            guard !uses.isClosing else { return false }
            uses.count += 1
            return true
        }
        guard isOpen else { return }
        body(number)
        let closes = uses.withLock { uses in
            uses.count -= 1
            return uses.claimClose()
        }
        if closes { systemClose(number) }
    }

    /// Closes the descriptor at once, or when the last borrower is done.
    func close() {
        let closes = uses.withLock { uses in
            uses.isClosing = true
            return uses.claimClose()
        }
        if closes { systemClose(number) }
    }
}

private func systemClose(_ number: Int32) {
    #if canImport(Darwin)
        _ = Darwin.close(number)
    #else
        _ = Glibc.close(number)
    #endif
}
