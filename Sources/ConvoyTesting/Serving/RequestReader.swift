import Convoy
import Foundation

struct RequestReader {
    enum BodyEnd {
        case complete
        case lost
        case malformed(MalformedRequest)
        case stopped
    }

    static let headLimitBytes = 64 * 1024
    private static let lineLimitBytes = 4 * 1024

    let socket: Descriptor
    private var input = InputBuffer()

    init(socket: Descriptor) { self.socket = socket }

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

struct InputBuffer {
    private var storage = [UInt8](repeating: 0, count: 16 * 1024)
    private(set) var start = 0
    private(set) var end = 0

    var bytes: ArraySlice<UInt8> { storage[start..<end] }
    var isEmpty: Bool { start == end }

    /// Returns false at the end of the stream or after a failure.
    mutating func fill(from socket: Descriptor) -> Bool {
        if start == end {
            start = 0
            end = 0
        } else if end == storage.count {
            if start > 0 {
                storage.replaceSubrange(0..<(end - start), with: Array(storage[start..<end]))
                end -= start
                start = 0
            } else {
                storage.append(contentsOf: repeatElement(0, count: storage.count))
            }
        }
        let offset = end
        let count = storage.withUnsafeMutableBytes { buffer in
            socket.receive(into: UnsafeMutableRawBufferPointer(rebasing: buffer[offset...]))
        }
        guard count > 0 else { return false }
        end += count
        return true
    }

    mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        let first = start
        start += min(max(0, count), end - start)
        return storage[first..<start]
    }

    /// Each byte is scanned once; nil if the head is incomplete.
    func endOfSection(scanningFrom scanned: inout Int) -> Int? {
        storage.withUnsafeBufferPointer { storage in
            var index = start + scanned
            defer { scanned = index - start }
            while index < end {
                let isLineEnd = storage[index] == 0x0A
                index += 1
                guard isLineEnd else { continue }
                let length = index - start
                let isEmptyLine = length >= 2 && storage[index - 2] == 0x0A
                let isEmptyCRLF = length >= 4 && storage[index - 2] == 0x0D && storage[index - 3] == 0x0A
                if isEmptyLine || isEmptyCRLF { return length }
            }
            return nil
        }
    }

    var firstLineLength: Int? { bytes.firstIndex(of: 0x0A).map { $0 + 1 - start } }
}

/// The reason becomes the body of the response.
struct MalformedRequest: Error {
    var statusCode = 400
    var reason: String
}

/// Parsed strictly, because a test server should show a client's mistakes.
struct RequestHead {
    enum Framing: Equatable {
        case none, chunked
        case length(Int64)
    }

    var method = ""
    var target = ""
    var isHTTP10 = false
    var fields: [(name: String, value: String)] = []
    var framing = Framing.none
    var keepsAlive = true
    var expectsContinue = false
    var bytes = Data()

    init(parsing bytes: ArraySlice<UInt8>) throws(MalformedRequest) {
        self.bytes = Data(bytes)
        var lines = LineReader(rest: bytes)
        try parseRequestLine(lines.next())
        fields.reserveCapacity(12)
        while true {
            let line = try lines.next()
            if line.isEmpty { break }
            fields.append(try Self.parseField(line))
        }
        try interpretFields()
    }

    private mutating func parseRequestLine(_ line: ArraySlice<UInt8>) throws(MalformedRequest) {
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].isToken, !parts[1].isEmpty else {
            throw MalformedRequest(reason: "request line")
        }
        guard parts[1].allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else { throw MalformedRequest(reason: "target") }
        if parts[2].elementsEqual("HTTP/1.0".utf8) {
            isHTTP10 = true
            keepsAlive = false
        } else if !parts[2].elementsEqual("HTTP/1.1".utf8) {
            throw MalformedRequest(reason: "version")
        }
        method = String(decoding: parts[0], as: UTF8.self)
        target = String(decoding: parts[1], as: UTF8.self)
    }

    /// RFC 9112, section 5, forbids a space before the colon and line folding.
    static func parseField(_ line: ArraySlice<UInt8>) throws(MalformedRequest) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: 0x3A) else { throw MalformedRequest(reason: "field without colon") }
        let name = line[..<colon]
        guard name.isToken else { throw MalformedRequest(reason: "field name") }
        var value = line[(colon + 1)...]
        while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
        while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
        guard value.allSatisfy({ $0 != 0 && $0 != 0x0D }) else { throw MalformedRequest(reason: "field value") }
        return (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }

    private mutating func interpretFields() throws(MalformedRequest) {
        var hosts = 0
        var length: Int64?
        for (name, value) in fields {
            switch name.utf8.count {
            case 4 where name.equalsIgnoringCase("host"):
                hosts += 1
            case 6 where name.equalsIgnoringCase("expect"):
                expectsContinue = value.equalsIgnoringCase("100-continue") && !isHTTP10
            case 10 where name.equalsIgnoringCase("connection"):
                let options = value.lowercased().split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                if options.contains("close") { keepsAlive = false }
                if isHTTP10, options.contains("keep-alive") { keepsAlive = true }
            case 14 where name.equalsIgnoringCase("content-length"):
                let isNumber = !value.isEmpty && value.utf8.allSatisfy { (0x30...0x39).contains($0) }
                guard isNumber, let count = Int64(value), length == nil || length == count else {
                    throw MalformedRequest(reason: "Content-Length")
                }
                length = count
            case 17 where name.equalsIgnoringCase("transfer-encoding"):
                guard value.equalsIgnoringCase("chunked"), framing == .none else {
                    throw MalformedRequest(reason: "Transfer-Encoding")
                }
                framing = .chunked
            default:
                break
            }
        }
        guard isHTTP10 || hosts == 1 else { throw MalformedRequest(reason: "Host") }
        // RFC 9112, section 6.1: a server may reject a request with both Content-Length and Transfer-Encoding, because
        // an attacker may use both for request smuggling.
        if let length {
            guard framing == .none else { throw MalformedRequest(reason: "Content-Length and Transfer-Encoding") }
            framing = .length(length)
        }
    }
}

private struct LineReader {
    var rest: ArraySlice<UInt8>

    mutating func next() throws(MalformedRequest) -> ArraySlice<UInt8> {
        guard let feed = rest.firstIndex(of: 0x0A), feed > rest.startIndex, rest[feed - 1] == 0x0D else {
            throw MalformedRequest(reason: "line end")
        }
        let line = rest[..<(feed - 1)]
        rest = rest[(feed + 1)...]
        return line
    }
}

extension ArraySlice<UInt8> {
    /// RFC 9110, section 5.6.2.
    fileprivate var isToken: Bool { !isEmpty && allSatisfy { $0.isTokenByte } }
}
