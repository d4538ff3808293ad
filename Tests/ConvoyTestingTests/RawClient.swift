import Foundation
import Testing

@testable import ConvoyTesting

#if canImport(Darwin)
    private let streamType = SOCK_STREAM
#else
    private let streamType = Int32(SOCK_STREAM.rawValue)
#endif

/// A client that shows the bytes on the wire: one blocking socket, every read bounded by ten seconds.
final class RawClient {
    enum StreamEnd: Equatable {
        case end, reset, timedOut
        case failed(Int32)
    }

    struct Response: Equatable {
        var head: String
        var body: Data
        var statusLine: String { String(head.prefix { $0 != "\r\n" }) }
    }

    private let socket: Descriptor
    private var buffer = Data()

    init(_ server: TestServer, sending text: String = "", receiveBufferBytes: Int32? = nil) throws {
        let number = Foundation.socket(AF_INET, streamType, 0)
        try #require(number >= 0)
        socket = Descriptor(number)
        var on: Int32 = 1
        _ = setsockopt(number, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
        if var receiveBufferBytes { _ = setsockopt(number, SOL_SOCKET, SO_RCVBUF, &receiveBufferBytes, 4) }
        var bound = timeval(tv_sec: 10, tv_usec: 0)
        _ = setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(server.port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result != 0 { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        send(text)
    }

    func close() { socket.close() }

    func endWriting() { socket.shutDown(reading: false, writing: true) }

    /// Sends all bytes, or as many as the server accepts before it ends the connection.
    @discardableResult
    func send(_ data: Data) -> Bool { data.withUnsafeBytes { socket.sendAll($0) } }

    @discardableResult
    func send(_ text: String) -> Bool { send(Data(text.utf8)) }

    func get(_ target: String, _ fields: String...) {
        let lines = ["GET \(target) HTTP/1.1", "Host: test"] + fields
        send(lines.joined(separator: "\r\n") + "\r\n\r\n")
    }

    private func fill() -> StreamEnd? {
        var bytes = [UInt8](repeating: 0, count: 64 * 1024)
        let count = recv(socket.number, &bytes, bytes.count, 0)
        if count > 0 {
            buffer.append(contentsOf: bytes[..<count])
            return nil
        }
        if count == 0 { return .end }
        switch errno {
        case ECONNRESET: return .reset
        case EAGAIN: return .timedOut
        default: return .failed(errno)
        }
    }

    /// Reads the remaining bytes; returns them with the way in which the stream ended.
    func readToEnd() -> (text: String, end: StreamEnd) {
        let (data, end) = readDataToEnd()
        return (String(decoding: data, as: UTF8.self), end)
    }

    func readDataToEnd() -> (data: Data, end: StreamEnd) {
        while true {
            guard let end = fill() else { continue }
            defer { buffer = Data() }
            return (buffer, end)
        }
    }

    func read(_ count: Int) throws -> Data {
        while buffer.count < count { try #require(fill() == nil) }
        defer { buffer = Data(buffer.dropFirst(count)) }
        return Data(buffer.prefix(count))
    }

    func readText(_ count: Int) throws -> String { String(decoding: try read(count), as: UTF8.self) }

    func readHead() throws -> String {
        while true {
            if let end = buffer.range(of: Data("\r\n\r\n".utf8)) {
                return try readText(end.upperBound - buffer.startIndex)
            }
            try #require(fill() == nil)
        }
    }

    /// Whether a read would return at once, with bytes or the end.
    var hasInput: Bool {
        var entry = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0
    }

    /// Reads one response that has a Content-Length or no body.
    func readResponse() throws -> Response {
        let head = try readHead()
        let length = head.split(separator: "\r\n").compactMap { line -> Int? in
            line.hasPrefix("Content-Length: ") ? Int(line.dropFirst(16)) : nil
        }
        return Response(head: head, body: try read(length.first ?? 0))
    }
}

extension TestServer {
    /// A client that has sent a GET request.
    func client(_ target: String = "/", receiveBufferBytes: Int32? = nil) throws -> RawClient {
        let client = try RawClient(self, receiveBufferBytes: receiveBufferBytes)
        client.get(target)
        return client
    }

    /// The bodies of the responses to GET requests on one connection.
    func bodies(_ targets: [String]) throws -> [String] {
        let client = try RawClient(self)
        return try targets.map { target in
            client.get(target)
            return String(decoding: try client.readResponse().body, as: UTF8.self)
        }
    }
}
