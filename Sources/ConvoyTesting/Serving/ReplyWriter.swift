import Foundation

struct ReplyWriter {
    enum Ending {
        case open, closed, reset
        /// The peer disconnected, the server was shut down, or a gate stayed closed for too long.
        case lost
    }

    private static let pieceBytes = 64 * 1024
    private static let gateBound = Duration.seconds(120)

    let socket: Descriptor
    private(set) var readsNoMore = false
    private(set) var writesNoMore = false
    private var pending: [UInt8] = []
    private var pace: Pace?

    private struct Pace {
        var bytesPerSecond: Int
        var pieceBytes: Int
        var sentBytes = 0
        var start = ContinuousClock.now
    }

    init(socket: Descriptor) {
        self.socket = socket
        pending.reserveCapacity(1024)
    }

    mutating func perform(_ steps: [Reply.Step]) -> Ending {
        for step in steps {
            let ending = perform(step)
            if ending != .open { return ending }
        }
        pace = nil
        return flush() ? .open : .lost
    }

    private mutating func perform(_ step: Reply.Step) -> Ending {
        switch step {
        case .write(let data):
            return write(data) ? .open : .lost
        case .writeRepeatedly(let data, let count):
            for _ in 0..<max(0, count) { guard write(data) else { return .lost } }
            return .open
        case .generate(let range):
            return generate(range) ? .open : .lost
        case .pace(let bytesPerSecond, let pieceBytes):
            guard flush() else { return .lost }
            pace = bytesPerSecond > 0 ? Pace(bytesPerSecond: bytesPerSecond, pieceBytes: max(1, pieceBytes)) : nil
            return .open
        default:
            guard flush() else { return .lost }
        }
        switch step {
        case .wait(let gate):
            return stand(at: gate) ? .open : .lost
        case .pause(let duration):
            return pause(until: .now + duration) ? .open : .lost
        case .close:
            return .closed
        case .reset:
            return .reset
        case .shutDownReading:
            readsNoMore = true
            socket.shutDown(reading: true, writing: false)
        case .shutDownWriting:
            writesNoMore = true
            socket.shutDown(reading: false, writing: true)
        case .write, .writeRepeatedly, .generate, .pace, .flush:
            break
        }
        return .open
    }

    private mutating func write(_ data: Data) -> Bool {
        if pace == nil, data.count < Self.pieceBytes {
            pending.append(contentsOf: data)
            return pending.count < Self.pieceBytes || flush()
        }
        var rest = data[...]
        while !rest.isEmpty {
            let piece = rest.prefix(pace?.pieceBytes ?? Self.pieceBytes)
            rest = rest.dropFirst(piece.count)
            pending.append(contentsOf: piece)
            guard sendPiece() else { return false }
        }
        return true
    }

    private mutating func generate(_ range: Range<Int64>) -> Bool {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let end = offset + min(range.upperBound - offset, Int64(pace?.pieceBytes ?? Self.pieceBytes))
            Pattern.append(offset..<end, to: &pending)
            offset = end
            guard sendPiece() else { return false }
        }
        return true
    }

    private mutating func sendPiece() -> Bool {
        guard var pace else { return pending.count < Self.pieceBytes || flush() }
        pace.sentBytes += pending.count
        self.pace = pace
        guard flush() else { return false }
        // Each write is due at a fixed time, so that delays do not add up.
        return pause(until: pace.start + .seconds(Double(pace.sentBytes) / Double(pace.bytesPerSecond)))
    }

    private mutating func flush() -> Bool {
        guard !pending.isEmpty else { return true }
        let isSent = pending.withUnsafeBytes { socket.sendAll($0) }
        pending.removeAll(keepingCapacity: pending.count <= 4 * Self.pieceBytes)
        return isSent
    }

    private func pause(until end: ContinuousClock.Instant) -> Bool {
        while true {
            let left = ContinuousClock.now.duration(to: end)
            guard left > .zero else { return true }
            if socket.waitForHangUp(milliseconds: left.wholeMilliseconds, watchesReading: !readsNoMore) == .peerIsGone {
                return false
            }
        }
    }

    private func stand(at gate: Gate) -> Bool {
        let wake = Descriptor.wakePair()
        // If no descriptors are left for the pair, the gate is polled every 20 ms.
        let slice: Duration = wake == nil ? .milliseconds(20) : Self.gateBound
        guard let queueEntry = gate.arrive(waking: wake?.writing) else { return true }
        defer { gate.leave(queueEntry) }
        let end = ContinuousClock.now + Self.gateBound
        while !gate.isOpen {
            let left = min(slice, ContinuousClock.now.duration(to: end))
            guard left > .zero else { return false }
            let wait = socket.waitForHangUp(
                milliseconds: left.wholeMilliseconds, watchesReading: !readsNoMore, or: wake?.reading)
            if wait == .peerIsGone { return false }
        }
        return true
    }
}

extension Duration {
    fileprivate var wholeMilliseconds: Int32 {
        guard self < .seconds(1_800) else { return 1_800_000 }
        let (seconds, attoseconds) = components
        return Int32(clamping: seconds * 1_000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
