// Server-sent events out of chunks that are cut anywhere.
import Foundation

/// One event of a stream of server-sent events.
public struct ServerSentEvent: Sendable, Hashable {
    /// What the server calls the event, `message` when it does not say.
    public var type: String
    /// The event's data; several lines are joined by LF.
    public var data: String
    /// The last id that the server has given, with this event or before; empty when there is none.
    public var lastEventID: String
    /// How long the server wants to be left alone before another connection; nil when it has not said.
    public var reconnectionTime: Duration?

    /// Makes an event; for tests.
    public init(type: String = "message", data: String, lastEventID: String = "", reconnectionTime: Duration? = nil) {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
        self.reconnectionTime = reconnectionTime
    }
}

/// Reads a stream of events as the HTML standard has it, section 9.2.6, "Interpreting an event stream".
///
/// A value, fed with one chunk after another: append one, take events until there is none, append the next. An event that
/// is not complete at the end is dropped.
struct EventParser {
    private let maxBytes: Int
    private var lines: LineParser
    private var type = ""
    private var data = ""
    /// The id that counts from the next empty line on.
    private var nextEventID: String?
    /// The last id given; nil when none was, empty when the server took it back.
    private(set) var lastEventID: String?
    private(set) var reconnectionTime: Duration?

    /// - Parameter maxBytes: how long a line, or the data of an event, may be.
    init(maxBytes: Int) {
        self.maxBytes = maxBytes
        lines = LineParser(maxBytes: maxBytes)
    }

    /// Adds a chunk; every event of the one before must have been taken.
    mutating func append(_ chunk: Data) { lines.append(chunk) }

    /// Another connection begins: what was not complete is dropped, the last id and the time are kept.
    mutating func beginAgain() {
        lines = LineParser(maxBytes: maxBytes)
        (type, data, nextEventID) = ("", "", lastEventID)
    }

    /// The next event, nil when more has to come.
    ///
    /// - Throws: `.bodyTooLarge` for an event that is larger than allowed; nothing may be asked after that.
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
            // Digits only, and so many that they are a time.
            guard value.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let milliseconds = Int64(Substring(value)), milliseconds < 1 << 53
            else { break }
            reconnectionTime = .milliseconds(milliseconds)
        default: break
        }
    }

    /// An empty line: the event is complete, if there is one.
    private mutating func dispatch() -> ServerSentEvent? {
        lastEventID = nextEventID
        defer { (type, data) = ("", "") }
        guard !data.isEmpty else { return nil }
        // By scalar: LF behind CR would be one character, and a combining one may stand first.
        data.unicodeScalars.removeLast()
        return ServerSentEvent(
            type: type.isEmpty ? "message" : type, data: data, lastEventID: lastEventID ?? "",
            reconnectionTime: reconnectionTime)
    }
}
