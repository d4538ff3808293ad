// What the operations of one manager share.
import Foundation

/// The surroundings of an operation: transport, base URL, where callbacks go by default, who watches.
final class ExecutionContext: Sendable {
    let transport: any Transport
    let baseURL: URL?
    let callbacks: Delivery?
    let monitors: [any EventMonitor]

    /// Where tasks are suspended, resumed and cancelled: in order, never on a transport's thread, never under a lock.
    ///
    /// SCF's `cancel()` waits for the loader's queue and deadlocks when it is called from a callback of that queue.
    let taskControl = DispatchQueue(label: "convoy.task-control")
    /// Where user code runs.
    let lanes = Lanes()
    /// Where monitors are told, in order.
    let monitorQueue = DispatchQueue(label: "convoy.monitors")

    /// For operations made without a manager.
    static let standalone = ExecutionContext()

    init(
        transport: any Transport = TransportChoice.automatic.transport, baseURL: URL? = nil, callbacks: Delivery? = nil,
        monitors: [any EventMonitor] = []
    ) {
        self.transport = transport
        self.baseURL = baseURL
        self.callbacks = callbacks
        self.monitors = monitors
    }
}
