// Limits how far a run reads ahead.

/// A counting semaphore for tasks; each open request uses one slot.
///
/// A deadline starts when a request is queued. Without this limit, the batch would queue more requests than can run at
/// once. Deadlines could then pass before the requests are sent.
///
/// ## Concurrency
/// One task calls `take()`; any thread calls `give()`. Stopping a run ends its open requests, which then release their
/// slots.
final class FetchPlaces: Sendable {
    private let (slots, free) = AsyncStream.makeStream(of: Void.self)

    init(count: Int) { for _ in 0..<count { give() } }

    /// Claims a slot, and waits if none is free.
    ///
    /// Returns at once after the task was cancelled.
    func take() async { for await _ in slots { return } }

    /// Releases a slot.
    func give() { free.yield() }
}
