// Modifiers of a request. Each function returns a changed copy.
import Foundation

extension Request {
    /// Sets a header field, replacing every value of that name; nil removes the field, and omits the manager's
    /// (``RequestManager/Configuration/headerFields``).
    public func header(_ name: String, _ value: String?) -> Self {
        changed {
            $0.headerFields[name] = value
            if value == nil { $0.policies.omittedHeaderFields.insert(name.lowercased()) }
        }
    }

    /// Sets header fields, each replacing every value of its name.
    public func headers(_ fields: [String: String]) -> Self {
        changed { core in
            // The fields are sorted by name, because the order of a dictionary is not stable.
            for (name, value) in fields.sorted(by: { $0.key < $1.key }) { core.headerFields[name] = value }
        }
    }

    /// Appends a header field, so that a name can have several values; a secret one is as with ``secretHeader(_:_:)``.
    public func addingHeader(_ name: String, _ value: String, isSecret: Bool = false) -> Self {
        changed { $0.headerFields.add(name, value, isSecret: isSecret) }
    }

    /// Sets a header field whose value is never shown in descriptions or logs, nor sent to another origin after a
    /// redirect, as with `Authorization`; it replaces every value of that name.
    public func secretHeader(_ name: String, _ value: String) -> Self {
        changed {
            $0.headerFields[name] = nil
            $0.headerFields.add(name, value, isSecret: true)
        }
    }

    /// Sets `Authorization: Bearer …` (RFC 6750); the token is never shown in descriptions or logs.
    public func bearer(_ token: String) -> Self { header("Authorization", "Bearer \(token)") }

    /// Appends query items to those of the URL, percent-encoded in UTF-8: a space becomes `%20`, a plus `%2B`.
    public func query(_ items: [URLQueryItem]) -> Self { changed { $0.query += items.map(\.percentEncoded) } }

    /// Appends one query item; a nil value results in a name without `=`.
    public func query(_ name: String, _ value: String?) -> Self { query([URLQueryItem(name: name, value: value)]) }

    /// Appends one query item with a number or another value that converts to text; nil is a name without `=`.
    @_disfavoredOverload
    public func query<Value: LosslessStringConvertible>(_ name: String, _ value: Value?) -> Self {
        query(name, value.map { String($0) })
    }

    /// Adds tags, by which a manager can find and cancel the request.
    public func tagged(_ tags: String...) -> Self { changed { $0.tags.formUnion(tags) } }

    /// Names the request in descriptions and in ``RequestManager/why(_:)``.
    public func named(_ name: String) -> Self { changed { $0.name = name } }

    /// Sets the queue priority; `.normal` by default.
    public func priority(_ priority: Operation.QueuePriority) -> Self { changed { $0.priority = priority } }

    /// Sets the maximum time without a sent or received byte, after which the attempt fails with `.timedOut`; by
    /// default the manager's (60 seconds), and on Linux, URLSession rounds it up to whole seconds.
    public func idleTimeout(_ timeout: Duration) -> Self { changed { $0.policies.idleTimeout = timeout } }

    /// Sets the maximum time of one attempt, from the start of its transfer to its last byte; by default the manager's.
    ///
    /// Suspended time is included. The attempt ends with `.timedOut`, so a retry may follow. The URLSession transport
    /// has no such limit and rejects the request with `.invalidRequest`.
    public func attemptTimeout(_ timeout: Duration?) -> Self { changed { $0.policies.attemptTimeout = .some(timeout) } }

    /// Sets the maximum size of a body for every destination, even none; a larger one fails with `.bodyTooLarge`.
    ///
    /// If the declared length is larger, the request fails before its body is received. Bytes beyond the limit are
    /// never delivered. The size is counted after content decoding; for a file it includes the bytes of an earlier
    /// download. The limit does not apply to a response that is not acceptable.
    ///
    /// Without any limit, even ``RequestManager/Configuration/maxBodyBytes``, 64 MiB may be in memory, or wait for a
    /// stream or a reader of chunks. A discarded body, a file, and a body whose reader keeps up are then unlimited.
    public func maxBodyBytes(_ limit: Int64) -> Self { changed { $0.policies.bodyLimit = limit } }

    /// Sets the accepted status codes, by default the manager's (200 to 299); others fail with `.unacceptableStatus`.
    public func acceptableStatusCodes(_ check: StatusCheck) -> Self {
        changed { $0.policies.acceptableStatusCodes = check }
    }

    func changed(_ change: (inout RequestCore) -> Void) -> Self {
        var copy = self
        change(&copy.core)
        return copy
    }
}
