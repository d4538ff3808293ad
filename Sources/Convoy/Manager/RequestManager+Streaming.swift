// Bodies that are read while they come: lines and events.
import Foundation

extension RequestManager {
    /// Sends a request and reads its body line by line.
    ///
    /// See ``ResponseLines``.
    ///
    /// - Parameters:
    ///   - request: what is sent when the first line is asked for.
    ///   - maxLineBytes: how long a line may be without its end; 1 MiB by default. A longer one ends the request with
    ///     `.bodyTooLarge`.
    public func lines(of request: Request<Data>, maxLineBytes: Int64 = 1 << 20) -> ResponseLines {
        ResponseLines(chunks(of: request), maxLineBytes: maxLineBytes)
    }

    /// Sends a request and reads the events the server sends.
    ///
    /// As in a browser, a connection that ends, in order or not, is followed by another, which tells the server by
    /// `Last-Event-ID` what came last; `reconnecting: .never` reads one connection, as for answers that come as events and
    /// have an end. It is made after the time the server has asked for (`retry`, at most the policy's
    /// `maxRetryAfter`), or three seconds, plus the policy's own wait; `maxRetries` counts the connections in a row
    /// that bring no event. As for retries, requests that are not idempotent are not sent again, and which failures and
    /// status codes are worth it the policy says. To go on where an earlier run ended, set `Last-Event-ID` on the request.
    ///
    /// Mind ``Request/idleTimeout(_:)``: a server that is silent for longer is taken for lost.
    ///
    /// - Parameters:
    ///   - request: what to send; `Accept` and `Cache-Control` are added where it has none.
    ///   - policy: when to connect again; ``RetryPolicy/standard`` by default.
    ///   - maxEventBytes: how long a line or the data of an event may be; 1 MiB by default.
    public func events(
        of request: Request<Data>, reconnecting policy: RetryPolicy = .standard, maxEventBytes: Int64 = 1 << 20
    ) -> ServerSentEvents {
        // Any other status fails; 204 ends the reading for good (HTML standard, section 9.2.3).
        var request = request.acceptableStatusCodes(.codes([200, 204])).acceptableContentTypes("text/event-stream")
        for (name, value) in [("Accept", "text/event-stream"), ("Cache-Control", "no-store")]
        where !request.headerFields.contains(name) {
            request = request.header(name, value)
        }
        return ServerSentEvents(
            manager: self, request: request, reconnecting: policy, maxEventBytes: Int(clamping: maxEventBytes))
    }
}
