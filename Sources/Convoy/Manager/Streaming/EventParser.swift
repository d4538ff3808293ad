// Parses server-sent events from chunks of any size.
import Foundation

/// One event of a stream of server-sent events.
public struct ServerSentEvent: Sendable, Hashable {
    /// The event's type; `message` when the server sends none.
    public var type: String
    /// The event's data.
    ///
    /// If the server sends several lines of data, they are joined by LF.
    public var data: String
    /// The last id that the server sent, with this event or before; empty when there is none.
    public var lastEventID: String
    /// The time that clients must wait before a reconnection; nil when the server has not sent one.
    public var reconnectionTime: Duration?

    /// Makes an event, for tests.
    public init(type: String = "message", data: String, lastEventID: String = "", reconnectionTime: Duration? = nil) {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
        self.reconnectionTime = reconnectionTime
    }
}

/// Parses an event stream (HTML standard, section 9.2.6, "Interpreting an event stream").
///
/// Append a chunk, call `next()` until it returns nil, then append the next chunk. An event that is incomplete at the
/// end is discarded.
struct EventParser {
    private let maxBytes: Int
    private var lines: LineParser
    private var type = ""
    private var data = ""
    /// The id that becomes `lastEventID` at the next empty line, which ends an event.
    private var nextEventID: String?
    /// The last id received; nil when there was none, empty when the server reset it.
    private(set) var lastEventID: String?
    private(set) var reconnectionTime: Duration?

    /// - Parameter maxBytes: the maximum length of a line or of an event's data.
    init(maxBytes: Int) {
        self.maxBytes = maxBytes
        lines = LineParser(maxBytes: maxBytes)
    }

    /// Adds a chunk.
    ///
    /// Before that, `next()` must have returned nil for the previous chunk.
    mutating func append(_ chunk: Data) { lines.append(chunk) }

    /// Starts a new connection.
    ///
    /// The call discards an incomplete event, and keeps the last id and the reconnection time.
    mutating func beginAgain() {
        lines = LineParser(maxBytes: maxBytes)
        (type, data, nextEventID) = ("", "", lastEventID)
    }

    /// The next event; nil when the parser needs more bytes.
    ///
    /// - Throws: `.bodyTooLarge` for an event larger than allowed. Do not call this method again after that.
    mutating func next() throws(RequestError) -> ServerSentEvent? {
        while let line = try lines.next() {
            guard line.isEmpty else {
                try take(line)
                continue
            }
            if let event = dispatch() { return event }
        }
        return nil
    }

    private mutating func take(_ line: String) throws(RequestError) {
        let colon = line.utf8.firstIndex(of: UInt8(ascii: ":"))
        var value = line.utf8[(colon ?? line.utf8.endIndex)...].dropFirst()
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(line[..<(colon ?? line.endIndex)]) {
        case "data":
            guard data.utf8.count + value.count <= maxBytes else {
                throw RequestError(.bodyTooLarge, "an event has more than the \(maxBytes) bytes allowed")
            }
            data.append(contentsOf: Substring(value))
            data.append("\n")
        case "event": type = String(Substring(value))
        case "id":
            if !value.contains(0) { nextEventID = String(Substring(value)) }
        case "retry":
            // Only digits are accepted, and only numbers that fit a duration.
            guard value.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let milliseconds = Int64(Substring(value)), milliseconds < 1 << 53
            else { break }
            reconnectionTime = .milliseconds(milliseconds)
        default: break
        }
    }

    /// Handles an empty line: completes the event, if there is one.
    private mutating func dispatch() -> ServerSentEvent? {
        lastEventID = nextEventID
        defer { (type, data) = ("", "") }
        guard !data.isEmpty else { return nil }
        // Removes the LF after the last line of data.
        data.unicodeScalars.removeLast()
        return ServerSentEvent(
            type: type.isEmpty ? "message" : type, data: data, lastEventID: lastEventID ?? "",
            reconnectionTime: reconnectionTime)
    }
}
