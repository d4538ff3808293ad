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
    let adopt: @Sendable (AnyOutcome, Exchange) -> AnyOutcome

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
    private struct Decoding {
        /// Keeps the identifiers of its key from being used again.
        let way: SharedDecoding
        /// Nil while the first that came is at it.
        var outcome: AnyOutcome?
        /// To be told of it.
        var waiting: [@Sendable (AnyOutcome) -> Void] = []
    }

    let response: Response<Data>
    private let decodings = Locked<[SharedDecoding.Key: Decoding]>([:])

    init(_ response: Response<Data>) { self.response = response }

    /// Gives the outcome of decoding, which the first that comes with this way of decoding makes.
    ///
    /// - Parameters:
    ///   - decode: makes it; called on this thread, with no lock held, or not at all.
    ///   - completion: is told, on this thread or on that of the first.
    func decode(
        _ way: SharedDecoding, by decode: () -> AnyOutcome, _ completion: @escaping @Sendable (AnyOutcome) -> Void
    ) {
        let (isFirst, known) = decodings.withLock { decodings -> (Bool, AnyOutcome?) in
            let isFirst = decodings[way.key] == nil
            if let outcome = decodings[way.key]?.outcome { return (false, outcome) }
            decodings[way.key, default: Decoding(way: way)].waiting.append(completion)
            return (isFirst, nil)
        }
        if let known { return completion(known) }
        guard isFirst else { return }
        let outcome = decode()
        let waiting = decodings.withLock { decodings in
            defer { decodings[way.key] = Decoding(way: way, outcome: outcome) }
            return decodings[way.key]?.waiting ?? []
        }
        for completion in waiting { completion(outcome) }
    }
}

extension AnyRequestOperation {
    /// An answer that another operation has fetched, as the answer to this attempt.
    func takeSharedAnswer(_ shared: SharedAnswer, attempt number: Int) {
        let response = shared.response
        guard
            let completion = attempt(
                number, hasWholeBodyOf: response.head, to: response.request, response.exchange.keptMetrics)
        else { return }
        onExecutor { self.complete(completion, with: ReceivedBody(storedData: response.value), for: shared) }
    }
}
