import Foundation

extension Reply {
    /// One action of a connection while it sends a reply.
    ///
    /// A reply is a sequence of steps.
    ///
    /// Bytes of adjacent steps are combined, and are written when at least 64 KiB are pending. A step without bytes
    /// first writes the pending bytes.
    public enum Step: Sendable {
        /// Sends these bytes unchanged.
        case write(Data)
        /// Sends the same bytes repeatedly, for endless header sections.
        ///
        /// A count below 1 sends nothing.
        case writeRepeatedly(Data, count: Int)
        /// Sends a range of the pattern, see ``Reply/patternByte(at:)``, without storing it in memory.
        case generate(Range<Int64>)
        /// Writes the pending bytes, so that the next bytes use a separate write.
        case flush
        /// Waits until the gate is open.
        case wait(Gate)
        /// Waits for a time, or until the client disconnects.
        case pause(Duration)
        /// Sends the following bytes at a rate, in writes of `pieceBytes`.
        ///
        /// A rate below 1 ends the pacing.
        case pace(bytesPerSecond: Int, pieceBytes: Int)
        /// Closes the connection normally (FIN).
        ///
        /// Later steps are ignored.
        case close
        /// Closes the connection with a reset (RST), after the client has acknowledged all sent bytes or two seconds
        /// have passed.
        ///
        /// Later steps are ignored.
        case reset
        /// Stops reading.
        ///
        /// Further bytes of the client are ignored.
        case shutDownReading
        /// Sends FIN but continues to read.
        ///
        /// The connection is closed when the reply ends.
        case shutDownWriting

        /// The number of bytes that the step sends.
        var byteCount: Int64 {
            switch self {
            case .write(let data): Int64(data.count)
            case .writeRepeatedly(let data, let count): Int64(min(Double(data.count) * Double(max(0, count)), 0x1p62))
            case .generate(let range): range.upperBound - range.lowerBound
            default: 0
            }
        }

        /// Splits the step at an offset in its bytes.
        func split(at offset: Int64) -> (before: [Step], after: [Step]) {
            switch self {
            case .write(let data):
                return ([.write(data.prefix(Int(offset)))], [.write(data.dropFirst(Int(offset)))])
            case .writeRepeatedly(let data, let count):
                let (whole, rest) = offset.quotientAndRemainder(dividingBy: Int64(data.count))
                let head = Step.writeRepeatedly(data, count: Int(whole))
                guard rest > 0 else { return ([head], [.writeRepeatedly(data, count: count - Int(whole))]) }
                return (
                    [head, .write(data.prefix(Int(rest)))],
                    [.write(data.dropFirst(Int(rest))), .writeRepeatedly(data, count: count - Int(whole) - 1)]
                )
            case .generate(let range):
                let middle = range.lowerBound + offset
                return ([.generate(range.lowerBound..<middle)], [.generate(middle..<range.upperBound)])
            default:
                return ([self], [])
            }
        }
    }

    /// When a step of ``performing(_:at:)`` is performed.
    ///
    /// Steps at the same moment are performed in the order in which they were added.
    public enum Moment: Sendable, Hashable {
        /// After the head of the request was read, before its body.
        case requestStart
        /// After a number of bytes of the request's body were read.
        ///
        /// A shorter body never reaches this moment.
        case requestBody(afterBytes: Int64)
        /// After the complete request was read, before any byte of the reply.
        case responseStart
        /// After a number of bytes of the body of the final response, including chunk framing.
        case responseBody(afterBytes: Int64)
        /// After a number of bytes of the reply, including heads and informational responses.
        case response(afterBytes: Int64)
        /// After all bytes of the reply were sent.
        case responseEnd
    }
}
