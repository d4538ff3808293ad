// A response for several operations. Operations with the same decoding share one result.
import Foundation

/// How an operation that shares a response also shares the decoded value.
///
/// A class, made only for requests that share a response. The plans of other requests store only a nil reference.
final class SharedDecoding: Sendable {
    struct Key: Hashable {
        fileprivate let decoding: ObjectIdentifier
        fileprivate let output: ObjectIdentifier
    }

    /// Identifies the decoding; retained, so that no other object gets the same identifier.
    private let identity: any AnyObject & Sendable
    let key: Key
    /// Replaces the exchange in another operation's success by the given one.
    let adopt: @Sendable (AnyOutcome, Exchange) -> AnyOutcome

    init<Output: Sendable>(_ identity: any AnyObject & Sendable, _: Output.Type) {
        self.identity = identity
        key = Key(decoding: ObjectIdentifier(identity), output: ObjectIdentifier(Output.self))
        adopt = { outcome, transfer in
            guard let success = outcome as? Success<Output> else { return outcome }
            return Success(success.response.value, transfer)
        }
    }
}

/// A response that one operation has fetched for several.
final class SharedAnswer: Sendable {
    private struct Decoding {
        /// How the response is decoded; retained, so that no other object gets the identifiers in the key.
        let way: SharedDecoding
        var outcome: AnyOutcome?
        var waiting: [@Sendable (AnyOutcome) -> Void] = []
    }

    let response: Response<Data>
    private let decodings = Locked<[SharedDecoding.Key: Decoding]>([:])

    init(_ response: Response<Data>) { self.response = response }

    /// Passes the outcome of decoding to a closure; the first call for each kind of decoding decodes for all.
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
    /// Completes an attempt with a response that another operation has fetched.
    func takeSharedAnswer(_ shared: SharedAnswer, attempt number: Int) {
        let response = shared.response
        guard
            let completion = attempt(
                number, hasWholeBodyOf: response.head, to: response.request, response.exchange.keptMetrics)
        else { return }
        complete(completion, with: ReceivedBody(storedData: response.value), for: shared)
    }
}
