import Foundation

extension Reply {
    /// One thing that a connection does while it answers; a reply is a sequence of these.
    ///
    /// Bytes of neighbouring steps go out in one write as far as 64 KiB; every step that is not bytes writes out first
    /// what is pending.
    public enum Step: Sendable {
        /// Sends these bytes as they are.
        case write(Data)
        /// Sends the same bytes over and over, for endless header sections; nothing is sent for a count below 1.
        case writeRepeatedly(Data, count: Int)
        /// Sends that range of the pattern, see ``Reply/patternByte(at:)``; never held in memory whole.
        case generate(Range<Int64>)
        /// Writes out what is pending, so that the next bytes go in a write of their own.
        case flush
        /// Stands still until the gate is open.
        case wait(Gate)
        /// Stands still for a while, or until the client goes away.
        case pause(Duration)
        /// Sends what follows at a rate, in pieces of so many bytes; a rate below 1 ends pacing.
        case pace(bytesPerSecond: Int, pieceBytes: Int)
        /// Closes the connection in order (FIN). Nothing after it is done.
        case close
        /// Closes the connection with a reset (RST), after everything sent has been acknowledged. Nothing after it is done.
        case reset
        /// Stops reading; what the client sends from then on is not looked at.
        case shutDownReading
        /// Sends FIN but goes on reading. The connection is closed when the reply ends.
        case shutDownWriting

        /// How many bytes the step sends.
        var byteCount: Int64 {
            switch self {
            case .write(let data): Int64(data.count)
            case .writeRepeatedly(let data, let count): Int64(min(Double(data.count) * Double(max(0, count)), 0x1p62))
            case .generate(let range): range.upperBound - range.lowerBound
            default: 0
            }
        }

        /// The same bytes as steps before and after an offset that lies inside.
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

    /// When a step of ``performing(_:at:)`` is done; steps at the same moment run in the order they were added.
    public enum Moment: Sendable, Hashable {
        /// The head of the request has been read, its body has not.
        case requestStart
        /// So many bytes of the request's body have been read. A shorter body never gets there.
        case requestBody(afterBytes: Int64)
        /// The request has been read whole; no byte of the reply has been sent.
        case responseStart
        /// So many bytes have been sent after the head of the final response, chunk framing counted.
        case responseBody(afterBytes: Int64)
        /// So many bytes of the reply have been sent, heads and informational responses counted.
        case response(afterBytes: Int64)
        /// Everything has been sent.
        case responseEnd
    }
}
