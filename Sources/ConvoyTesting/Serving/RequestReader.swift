import Foundation

/// Reads requests from one connection.
struct RequestReader {
    /// How reading a body ended.
    enum BodyEnd {
        case complete
        /// The client ended the connection.
        case lost
        case malformed(MalformedRequest)
        /// A step that the reply performs during the body ended the connection.
        case stopped
    }

    static let headLimitBytes = 64 * 1024
    private static let lineLimitBytes = 4 * 1024

    let socket: Descriptor
    private var input = InputBuffer()

    init(socket: Descriptor) {
        self.socket = socket
    }

    /// The next request's head; nil when the client has ended the connection.
    mutating func readHead() throws(MalformedRequest) -> RequestHead? {
        // RFC 9112, section 2.2: empty lines before a request are ignored, here up to eight CR and LF bytes.
        var emptyLines = 0
        while true {
            if input.isEmpty, !input.fill(from: socket) { return nil }
            guard let first = input.bytes.first, first == 0x0D || first == 0x0A, emptyLines < 8 else { break }
            _ = input.take(1)
            emptyLines += 1
        }
        guard let section = try readSection() else { return nil }
        return try RequestHead(parsing: section)
    }

    private mutating func readSection() throws(MalformedRequest) -> ArraySlice<UInt8>? {
        var scanned = 0
        while true {
            if let length = input.endOfSection(scanningFrom: &scanned) {
                guard length <= Self.headLimitBytes else { break }
                return input.take(length)
            }
            guard input.bytes.count < Self.headLimitBytes else { break }
            guard input.fill(from: socket) else { return nil }
        }
        throw MalformedRequest(statusCode: 431, reason: "more than \(Self.headLimitBytes) bytes of head")
    }

    /// Reads a body into `recorder`.
    ///
    /// Calls `mayGoOn` at each of the byte counts in `moments`, and stops if the closure returns false.
    mutating func readBody(
        _ framing: RequestHead.Framing, into recorder: inout BodyRecorder, stoppingAt moments: [Int64],
        mayGoOn: (Int64) -> Bool
    ) -> BodyEnd {
        var moments = moments[...]
        switch framing {
        case .none:
            return .complete
        case .length(let count):
            return readBytes(count, into: &recorder, moments: &moments, mayGoOn: mayGoOn) ?? .complete
        case .chunked:
            while true {
                let size: Int64
                switch readChunkSize() {
                case .success(let value?): size = value
                case .success(nil): return .lost
                case .failure(let error): return .malformed(error)
                }
                if size == 0 { return readTrailers(into: &recorder) }
                if let end = readBytes(size, into: &recorder, moments: &moments, mayGoOn: mayGoOn) { return end }
                while input.bytes.count < 2 { guard input.fill(from: socket) else { return .lost } }
                guard input.take(2).elementsEqual([0x0D, 0x0A]) else {
                    return .malformed(MalformedRequest(reason: "end of chunk"))
                }
            }
        }
    }

    /// Reads `count` body bytes; the result is nil if all were read, otherwise why reading ended.
    private mutating func readBytes(
        _ count: Int64, into recorder: inout BodyRecorder, moments: inout ArraySlice<Int64>, mayGoOn: (Int64) -> Bool
    ) -> BodyEnd? {
        var rest = count
        while true {
            while let moment = moments.first, moment <= recorder.byteCount {
                moments.removeFirst()
                guard mayGoOn(moment) else { return .stopped }
            }
            guard rest > 0 else { return nil }
            if input.isEmpty, !input.fill(from: socket) { return .lost }
            let untilMoment = moments.first.map { $0 - recorder.byteCount } ?? .max
            let bytes = input.take(Int(min(rest, untilMoment, Int64(input.bytes.count))))
            rest -= Int64(bytes.count)
            recorder.append(bytes)
        }
    }

    private mutating func readLine() -> Result<ArraySlice<UInt8>?, MalformedRequest> {
        while true {
            if let length = input.firstLineLength {
                let line = input.take(length).dropLast()
                guard line.last == 0x0D else { return .failure(MalformedRequest(reason: "line end")) }
                return .success(line.dropLast())
            }
            guard input.bytes.count < Self.lineLimitBytes else {
                return .failure(MalformedRequest(reason: "line too long"))
            }
            guard input.fill(from: socket) else { return .success(nil) }
        }
    }

    private mutating func readChunkSize() -> Result<Int64?, MalformedRequest> {
        readLine().flatMap { line in
            guard let line else { return .success(nil) }
            let digits = line.prefix { $0 != 0x3B && $0 != 0x20 }
            let isHex = digits.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x46).contains($0 & 0xDF) }
            guard isHex, (1...15).contains(digits.count),
                let size = Int64(String(decoding: digits, as: UTF8.self), radix: 16)
            else { return .failure(MalformedRequest(reason: "chunk size")) }
            return .success(size)
        }
    }

    private mutating func readTrailers(into recorder: inout BodyRecorder) -> BodyEnd {
        var byteCount = 0
        while byteCount < Self.headLimitBytes {
            switch readLine() {
            case .failure(let error): return .malformed(error)
            case .success(nil): return .lost
            case .success(let line?):
                if line.isEmpty { return .complete }
                byteCount += line.count
                do {
                    recorder.trailerFields.append(try RequestHead.parseField(line))
                } catch {
                    return .malformed(error)
                }
            }
        }
        let reason = "more than \(Self.headLimitBytes) bytes of trailer"
        return .malformed(MalformedRequest(statusCode: 431, reason: reason))
    }
}
