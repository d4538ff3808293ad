// How the owner of a transfer controls it.
#if canImport(CLibcurl)
    import Foundation
    import FoundationNetworking
    import Synchronization

    /// The state of a transfer that the owner of its task wants.
    ///
    /// Any thread may change the state. When the engine reads the state, it sees the result of all earlier changes.
    struct DesiredTransferState: OptionSet, AtomicRepresentable {
        let rawValue: UInt8

        static let begun = Self(rawValue: 1)
        static let suspended = Self(rawValue: 2)
        /// `resume()`, which ends the client's back-pressure, was called since the last check.
        static let resumed = Self(rawValue: 4)
        static let cancelled = Self(rawValue: 8)
        static let bodyReady = Self(rawValue: 16)
        /// The transfer is in the engine's inbox.
        static let queued = Self(rawValue: 32)
    }

    extension CurlTransfer: TransferTask {
        func resume() { engine.look(at: self, adding: [.begun, .resumed], removing: .suspended) }

        func suspend() { engine.look(at: self, adding: .suspended) }

        func cancel() { engine.look(at: self, adding: .cancelled) }

        func makeSessionTask() -> URLSessionTask {
            TransferSessionTask(self, for: request) {
                if self.isOver.load(ordering: .acquiring) { return .completed }
                let desired = self.desired.load(ordering: .acquiring)
                return desired.contains(.cancelled) ? .canceling : desired.contains(.suspended) ? .suspended : .running
            }
        }

        /// Changes the desired state, and returns the state before.
        ///
        /// - Thread: any.
        func changeDesired(
            adding new: DesiredTransferState, removing old: DesiredTransferState
        ) -> DesiredTransferState {
            var state = desired.load(ordering: .relaxed)
            while true {
                let changed = state.subtracting(old).union(new)
                let (isDone, found) = desired.compareExchange(
                    expected: state, desired: changed, ordering: .acquiringAndReleasing)
                if isDone { return state }
                state = found
            }
        }
    }
#endif
