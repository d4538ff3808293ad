// An answer for several operations, decoded once for those that decode it alike.
import Foundation

/// How an operation that shares an answer shares what that is decoded to.
///
/// A class, made only for requests that share: other operations have no more than a reference for it.
final class SharedDecoding: Sendable {
    struct Key: Hashable {
        fileprivate let decoding: ObjectIdentifier
        fileprivate let output: ObjectIdentifier
    }

    /// Alive as long as this, so that no other object gets its identifier.
    private let identity: any AnyObject & Sendable
    let key: Key
    /// The outcome of another operation as the outcome of one with this transfer.
    let adopt: @Sendable (AnyOutcome, FinishedTransfer) -> AnyOutcome

    init<Output: Sendable>(_ identity: any AnyObject & Sendable, _: Output.Type) {
        self.identity = identity
        key = Key(decoding: ObjectIdentifier(identity), output: ObjectIdentifier(Output.self))
        adopt = { outcome, transfer in
            guard let success = outcome as? Success<Output> else { return outcome }
            return Success(Response(success.response.value, transfer))
        }
    }
}

/// An answer that one operation has fetched for several.
final class SharedAnswer: Sendable {
    private enum State {
        /// The first is at it; those to be told.
        case decoding([@Sendable (AnyOutcome) -> Void])
        case done(AnyOutcome)
    }

    let response: Response<Data>
    /// With what keeps the identifiers of the keys from being used again.
    private let states = Locked<[SharedDecoding.Key: (State, SharedDecoding)]>([:])

    init(_ response: Response<Data>) { self.response = response }

    /// Gives the outcome of decoding, which the first that comes with this way of decoding makes.
    ///
    /// - Parameters:
    ///   - decode: makes it; called on this thread, with no lock held, or not at all.
    ///   - completion: is told, on this thread or on that of the first.
    func decode(
        _ way: SharedDecoding, by decode: () -> AnyOutcome, _ completion: @escaping @Sendable (AnyOutcome) -> Void
    ) {
        enum Turn {
            case first, waits
            case isDone(AnyOutcome)
        }
        let turn: Turn = states.withLock { states in
            switch states[way.key] {
            case nil:
                states[way.key] = (.decoding([completion]), way)
                return .first
            case (.decoding(var others), let first)?:
                // The only reference then: adding copies nothing, however many wait.
                states[way.key] = nil
                others.append(completion)
                states[way.key] = (.decoding(others), first)
                return .waits
            case (.done(let outcome), _)?: return .isDone(outcome)
            }
        }
        switch turn {
        case .waits: break
        case .isDone(let outcome): completion(outcome)
        case .first:
            let outcome = decode()
            let told = states.withLock { states -> [@Sendable (AnyOutcome) -> Void] in
                guard case (.decoding(let told), let first)? = states[way.key] else { return [] }
                states[way.key] = (.done(outcome), first)
                return told
            }
            for completion in told { completion(outcome) }
        }
    }
}

extension AnyRequestOperation {
    /// An answer that another operation has fetched, as the answer to this attempt.
    func takeCarried(_ shared: SharedAnswer, attempt number: Int) {
        guard let completion = attempt(number, hasWholeBodyCommitting: false) else { return }
        let response = shared.response
        let answer = CompleteAnswer(
            body: ReceivedBody(storedData: response.value), head: response.head, request: response.request,
            metrics: response.metrics)
        onLane { self.attempt(number, didComplete: answer, completion, for: shared) }
    }
}
