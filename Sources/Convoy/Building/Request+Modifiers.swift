// What a request carries: each function returns a changed copy.
import Foundation

extension Request {
    /// Sets a header field, replacing every value of that name; nil removes it.
    public func header(_ name: String, _ value: String?) -> Self {
        changed { $0.headerFields[name] = value }
    }

    /// Adds a header field behind those already there, so that a name can have several values.
    ///
    /// - Parameter isSecret: whether the value is one, as with ``secretHeader(_:_:)``.
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
        changed { $0.queryItems += items }
    }

    /// Adds one query item; a nil value gives a name without `=`.
    public func query(_ name: String, _ value: String?) -> Self { query([URLQueryItem(name: name, value: value)]) }

    /// Sets the body, and its content type unless that is nil.
    public func body(_ body: Data, contentType: String? = "application/octet-stream") -> Self {
        changed {
            $0.body = .data(body)
            if let contentType { $0.headerFields["Content-Type"] = contentType }
        }
    }

    /// Sends a file as the body, read while it is sent, and sets the content type unless that is nil.
    ///
    /// The file is looked at when the request is ready to run, its dependencies finished: one that is missing, unreadable or no regular file, or becomes
    /// shorter while it is sent, ends the request with `.bodyUnreadable`.
    public func body(fromFile file: URL, contentType: String? = "application/octet-stream") -> Self {
        changed {
            $0.body = .file(file)
            if let contentType { $0.headerFields["Content-Type"] = contentType }
            if !file.isFileURL { $0.defect = "the body \(file.redactedString) is not a file URL" }
        }
    }

    /// Sets a JSON body and its content type.
    ///
    /// A value that cannot be encoded makes the request invalid, with the reason.
    ///
    /// - Parameters:
    ///   - value: what to encode, now, on the calling thread.
    ///   - encoder: the encoder; a plain `JSONEncoder` by default.
    public func json(_ value: some Encodable, encoder: JSONEncoder = JSONEncoder()) -> Self {
        do {
            return body(try encoder.encode(value), contentType: "application/json")
        } catch {
            return changed { $0.defect = "the body could not be encoded as JSON: \(error)" }
        }
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

    /// Sets how long nothing may arrive before the request fails with `.timedOut`; 60 seconds by default.
    ///
    /// On Linux, URLSession counts whole seconds: the time is rounded up there.
    public func idleTimeout(_ timeout: Duration) -> Self {
        changed { $0.idleTimeout = timeout }
    }

    /// Sets how long one attempt may take, from the start of its transfer to its last byte; none by default.
    ///
    /// Time spent suspended counts. Ends the request with `.deadlineExceeded`. URLSession on Linux has no such limit:
    /// there the request is refused with `.invalidRequest`.
    public func transferTimeout(_ timeout: Duration?) -> Self {
        changed { $0.transferTimeout = timeout }
    }

    /// Sets how many bytes of body are accepted in memory, or may wait to be read; 64 MiB by default.
    ///
    /// One byte more ends the request with `.bodyTooLarge`. A file has no such limit.
    public func maximumBodyBytes(_ limit: Int64) -> Self {
        changed { $0.maximumBodyBytes = limit }
    }

    /// Sets which status codes are accepted; 200 to 299 by default.
    ///
    /// Others end with `.unacceptableStatus`.
    public func accepting(_ check: StatusCheck) -> Self {
        changed { $0.acceptableStatusCodes = check }
    }

    func changed(_ change: (inout RequestCore) -> Void) -> Self {
        var copy = self
        change(&copy.core)
        return copy
    }
}
