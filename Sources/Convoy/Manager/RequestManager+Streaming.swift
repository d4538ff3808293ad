// Bodies that are read while they arrive: lines and events.
import Foundation

extension RequestManager {
    /// Sends a request and reads its body line by line.
    ///
    /// See ``ResponseLines``.
    ///
    /// - Parameters:
    ///   - request: the request, which is sent at once.
    ///   - maxLineBytes: the maximum length of a line without its end; 1 MiB by default. A longer line fails the
    ///     request with `.bodyTooLarge`.
    public func lines(of request: Request<Data>, maxLineBytes: Int64 = 1 << 20) -> ResponseLines {
        ResponseLines(chunks(of: request), maxLineBytes: maxLineBytes)
    }

    /// Sends a request and reads server-sent events.
    ///
    /// As in a browser, a new connection follows a connection that ended, with or without an error. The new request has
    /// the last event's id in `Last-Event-ID`. Use `reconnecting: .never` to read one connection, for responses that
    /// have an end. The wait before a reconnection has two parts. The first is the server's `retry`, or else three
    /// seconds, or a longer `Retry-After` of a failed response. The policy's `maxRetryAfter` limits this part. The
    /// second part is the policy's own wait. `maxRetries` limits the reconnections since the last event. As for
    /// retries, the policy decides which failures, status codes and methods allow a reconnection. To resume after an
    /// earlier run, set `Last-Event-ID` on the request.
    ///
    /// If the server is silent for longer than ``Request/idleTimeout(_:)``, the connection counts as lost. Set that
    /// timeout above the longest pause of the server.
    ///
    /// - Parameters:
    ///   - request: the request. `Accept` and `Cache-Control` are added if the request does not have them.
    ///   - policy: when to reconnect; ``RetryPolicy/standard`` by default.
    ///   - maxEventBytes: the maximum length of a line or of an event's data; 1 MiB by default.
    public func events(
        of request: Request<Data>, reconnecting policy: RetryPolicy = .standard, maxEventBytes: Int64 = 1 << 20
    ) -> ServerSentEvents {
        // Only 200 and 204 are accepted. A 204 ends the stream without a reconnection (HTML standard, section 9.2.3).
        var request = request.acceptableStatusCodes(.codes([200, 204])).acceptableContentTypes("text/event-stream")
        for (name, value) in [("Accept", "text/event-stream"), ("Cache-Control", "no-store")]
        where !request.headerFields.contains(name) {
            request = request.header(name, value)
        }
        return ServerSentEvents(
            manager: self, request: request, reconnecting: policy, maxEventBytes: Int(clamping: maxEventBytes))
    }
}
