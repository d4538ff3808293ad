// Requests under way whose responses answer equal ones: collapsed forwarding.
import Convoy

/// The requests under way by cache key, and the equal requests that wait for them.
///
/// A request that misses waits for the response to an equal one, and looks again when that is stored (RFC 9111, section 4).
/// When the response turns out not to be shareable, each of them is sent. One request a key is waited for.
///
/// ## Concurrency
/// One lock, a leaf. Those who wait are called outside it.
final class Fetches: Sendable {
    /// What a response is for, as far as the request tells.
    struct Selection: Sendable, Equatable {
        let authorization: String?
        let keepsCoding: Bool

        init(_ question: CacheQuestion) {
            authorization = VaryKey.normalized("authorization", question.headerFields, question.digest)
            keepsCoding = question.keepsCoding
        }
    }

    private struct Fetch {
        let owner: ObjectIdentifier
        let selection: Selection
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Locked([String: Fetch]())

    /// Longer responses are not waited for.
    static let mostBytes: Int64 = 1 << 20

    /// A request goes to the network; without effect where another one of its key is under way.
    func begin(_ key: String, _ selection: Selection, by owner: AnyObject) {
        let owner = ObjectIdentifier(owner)
        state.withLock { fetches in
            if fetches[key] == nil { fetches[key] = Fetch(owner: owner, selection: selection) }
        }
    }

    /// Its response is stored, or cannot be shared; a second time without effect.
    func end(_ key: String, by owner: AnyObject) {
        let owner = ObjectIdentifier(owner)
        let waiting = state.withLock { fetches -> [@Sendable () -> Void] in
            guard fetches[key]?.owner == owner else { return [] }
            return fetches.removeValue(forKey: key)?.waiting ?? []
        }
        for then in waiting { then() }
    }

    /// Waits for the response of another request; false where there is none to wait for.
    func await(_ key: String, _ selection: Selection, _ then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { fetches in
            guard fetches[key]?.selection == selection else { return false }
            fetches[key]?.waiting.append(then)
            return true
        }
    }
}

extension CacheQuestion {
    /// Whether the response to an equal request may answer it.
    var isShareable: Bool {
        method == .get && !hasBody && !hasCondition && !headerFields.contains("Range") && !isOffline
            && [.standard, .preferCache].contains(options.policy) && !control.contains("no-cache")
    }
}
