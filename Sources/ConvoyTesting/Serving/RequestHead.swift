import Convoy
import Foundation

/// Why a request was rejected.
///
/// The reason becomes the body of the response.
struct MalformedRequest: Error {
    var statusCode = 400
    var reason: String
}

/// The request line and header section, parsed strictly, because a test server should show a client's mistakes.
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

    /// Parses one field line of a head or of trailers.
    ///
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

/// Reads the lines of a request head, each of which must end with CR LF.
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
    /// Whether these are one or more token characters, RFC 9110 section 5.6.2.
    fileprivate var isToken: Bool { !isEmpty && allSatisfy { $0.isTokenByte } }
}
