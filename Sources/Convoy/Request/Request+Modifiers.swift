// What a request carries: each function returns a changed copy.
import Foundation

extension Request {
    /// Sets a header field, replacing every value of that name; nil removes it, that of the manager's defaults too.
    ///
    /// See ``RequestManager/Configuration/headerFields``.
    public func header(_ name: String, _ value: String?) -> Self {
        changed {
            $0.headerFields[name] = value
            if value == nil { $0.policies.omittedHeaderFields.insert(name.lowercased()) }
        }
    }

    /// Sets header fields, each replacing every value of its name.
    public func headers(_ fields: [String: String]) -> Self {
        changed { core in
            // In the order of their names: a dictionary has none that lasts.
            for (name, value) in fields.sorted(by: { $0.key < $1.key }) { core.headerFields[name] = value }
        }
    }

    /// Adds a header field behind those already there, so that a name can have several values.
    ///
    /// - Parameters:
    ///   - name: compared without case, sent as it is.
    ///   - value: sent as it is.
    ///   - isSecret: whether the value is a secret, as with ``secretHeader(_:_:)``.
    public func addingHeader(_ name: String, _ value: String, isSecret: Bool = false) -> Self {
        changed { $0.headerFields.add(name, value, isSecret: isSecret) }
    }

    /// Sets a header field whose value is a secret, replacing every value of that name.
    ///
    /// Like that of `Authorization` it is never shown in descriptions or logs, and never follows a redirect to another
    /// origin.
    public func secretHeader(_ name: String, _ value: String) -> Self {
        changed {
            $0.headerFields[name] = nil
            $0.headerFields.add(name, value, isSecret: true)
        }
    }

    /// Sets `Authorization: Bearer …` (RFC 6750).
    ///
    /// The token is never shown in descriptions or logs.
    public func bearer(_ token: String) -> Self { header("Authorization", "Bearer \(token)") }

    /// Adds query items behind those of the URL, percent-encoded in UTF-8; a space becomes `%20`, a plus `%2B`.
    public func query(_ items: [URLQueryItem]) -> Self {
        changed { $0.query += items.map(\.percentEncoded) }
    }

    /// Adds one query item; a nil value gives a name without `=`.
    public func query(_ name: String, _ value: String?) -> Self { query([URLQueryItem(name: name, value: value)]) }

    /// Adds one query item with a number or another value that has a text; a nil value gives a name without `=`.
    @_disfavoredOverload
    public func query<Value: LosslessStringConvertible>(_ name: String, _ value: Value?) -> Self {
        query(name, value.map { String($0) })
    }

    /// Adds tags, by which a manager can find and cancel the request.
    public func tagged(_ tags: String...) -> Self {
        changed { $0.tags.formUnion(tags) }
    }

    /// Names the request in descriptions and in ``RequestManager/why(_:)``.
    public func named(_ name: String) -> Self {
        changed { $0.name = name }
    }

    /// Sets the priority it is queued with; `.normal` by default.
    public func priority(_ priority: Operation.QueuePriority) -> Self {
        changed { $0.priority = priority }
    }

    /// Sets how long nothing may arrive before the request fails with `.timedOut`; the manager's time by default, which is
    /// 60 seconds.
    ///
    /// On Linux, URLSession counts whole seconds: the time is rounded up there.
    public func idleTimeout(_ timeout: Duration) -> Self {
        changed { $0.policies.idleTimeout = timeout }
    }

    /// Sets how long one attempt may take, from the start of its transfer to its last byte; the manager's time by
    /// default, which is none.
    ///
    /// Time spent suspended counts. Ends the attempt with `.timedOut`, so another may follow it. URLSession on Linux has no
    /// such limit: there the request is refused with `.invalidRequest`.
    public func attemptTimeout(_ timeout: Duration?) -> Self {
        changed { $0.policies.attemptTimeout = .some(timeout) }
    }

    /// Sets how many bytes of body are accepted, wherever they go: memory, a file, a stream, chunks, lines, events, nowhere.
    ///
    /// One byte more ends the request with `.bodyTooLarge`, before anything is received where the server announces it, and
    /// none of the bytes beyond are delivered. Counted is what comes out of the content coding; of a file the whole, what
    /// an earlier download left included. An answer that is not acceptable is no such body.
    ///
    /// Without it, and without ``RequestManager/Configuration/maxBodyBytes``, 64 MiB are accepted in memory, or may
    /// wait to be read by a stream or by the reader of chunks; a body that is read in time, one that is dropped, and a file
    /// have no limit then.
    public func maxBodyBytes(_ limit: Int64) -> Self {
        changed { $0.policies.bodyLimit = limit }
    }

    /// Sets which status codes are accepted; the manager's check by default, which is 200 to 299.
    ///
    /// Others end with `.unacceptableStatus`.
    public func acceptableStatusCodes(_ check: StatusCheck) -> Self {
        changed { $0.policies.acceptableStatusCodes = check }
    }

    func changed(_ change: (inout RequestCore) -> Void) -> Self {
        var copy = self
        change(&copy.core)
        return copy
    }
}
