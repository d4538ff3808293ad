import Convoy
import Foundation
import Testing

#if os(Linux)
    /// HTTP/2 over the TLS of `openssl s_server` on 127.0.0.1, one connection at a time.
    final class HTTP2Server: Sendable {
        /// A request: its stream, and the number of its connection, from 1.
        struct Stream: Sendable, Hashable {
            let connection: Int
            let number: Int
        }

        private let process: SpawnedProcess
        private let reader: Reader
        private let held: LoopbackPort
        var port: Int { held.port }

        /// The received requests, oldest first.
        var streams: EventLog<Stream> { reader.streams }
        /// The payloads of the requests' HEADERS frames, oldest first, still compressed (RFC 7541).
        var blocks: EventLog<Data> { reader.blocks }

        /// Starts a server and waits until it accepts.
        ///
        /// - Parameters:
        ///   - isEarly: whether the server responds after the head of a request and ignores the body.
        ///   - answer: called for each request in order. Its result is written.
        init(isEarly: Bool = false, answer: @escaping @Sendable (Stream) -> [Data]) async throws {
            let identity = try Certificates.shared.server
            let (held, reader) = (try LoopbackPort.refusing(), Reader(isEarly: isEarly, answer))
            let files = ["-cert", identity.certificate.path, "-key", identity.privateKey.path]
            let process = try SpawnedProcess(
                ["openssl", "s_server", "-quiet", "-alpn", "h2", "-accept", "127.0.0.1:\(held.port)"] + files,
                in: identity.certificate.deletingLastPathComponent()
            ) { reader.append($0) }
            reader.write = { [weak process] in process?.write($0) }
            (self.process, self.reader, self.held) = (process, reader, held)
            await look { LoopbackConnection(port: UInt16(clamping: held.port)) != nil }
        }

        deinit { shutDown() }

        func url(_ path: String = "/") -> String { "https://127.0.0.1:\(port)\(path)" }

        /// Sends frames that belong to no response.
        func write(_ frames: Data) { reader.write(frames) }

        func shutDown() { process.kill() }

        // MARK: Frames

        /// Status 200 and no body.
        static func ok(_ stream: Int) -> Data { frame(type: 1, flags: 5, stream, [0x88]) }

        /// Status 200 with a length and the body "ok".
        static func okWithBody(_ stream: Int) -> Data {
            frame(type: 1, flags: 4, stream, [0x88, 0x0F, 0x0D, 0x01, 0x32])
                + frame(type: 0, flags: 1, stream, Array("ok".utf8))
        }

        /// Status 200 without a length, and a part of the body.
        static func beginning(_ stream: Int) -> Data {
            frame(type: 1, flags: 4, stream, [0x88]) + frame(type: 0, stream, Array("part".utf8))
        }

        static func end(_ stream: Int) -> Data { frame(type: 0, flags: 1, stream, Array("ial".utf8)) }

        /// A SETTINGS frame with an invalid length, which is a connection error (RFC 9113, section 6.5).
        static let badSettings = frame(type: 4, 0, [1, 2, 3])

        /// Status 302 with a target of at most 126 bytes.
        static func redirect(_ stream: Int, to place: String) -> Data {
            let location = [0x0F, 0x1F, UInt8(truncatingIfNeeded: place.utf8.count)] + Array(place.utf8)
            return frame(type: 1, flags: 5, stream, [0x08, 3] + Array("302".utf8) + location)
        }

        /// A frame that says that the server needs no more of the request (RFC 9113, section 8.1).
        static func resetWithoutError(_ stream: Int) -> Data { frame(type: 3, stream, bigEndian(0)) }

        /// A frame that rejects a stream with an error code (RFC 9113, section 7).
        static func reset(_ stream: Int, code: Int) -> Data { frame(type: 3, stream, bigEndian(code)) }

        /// A GOAWAY frame: the server handles no streams after this one.
        static func goAway(after last: Int) -> Data { frame(type: 7, 0, bigEndian(last) + bigEndian(0)) }

        fileprivate static let settings = frame(type: 4, 0, []) + frame(type: 4, flags: 1, 0, [])

        private static func frame(type: UInt8, flags: UInt8 = 0, _ stream: Int, _ payload: [UInt8]) -> Data {
            Data(bigEndian(payload.count).dropFirst() + [type, flags] + bigEndian(stream) + payload)
        }

        private static func bigEndian(_ number: Int) -> [UInt8] {
            [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
        }

        private final class Reader: @unchecked Sendable {
            // @unchecked: `lock` guards `writer`. After `writer` is set, only the thread that reads the output uses
            // the other properties.
            private static let preface = Data("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
            private let lock = NSLock()
            private let answer: @Sendable (Stream) -> [Data]
            private var writer: @Sendable (Data) -> Void = { _ in }
            private var rest = Data()
            private var connection = 0
            let streams = EventLog<Stream>()
            let blocks = EventLog<Data>()

            private let isEarly: Bool

            init(isEarly: Bool, _ answer: @escaping @Sendable (Stream) -> [Data]) {
                (self.isEarly, self.answer) = (isEarly, answer)
            }

            var write: @Sendable (Data) -> Void {
                get { lock.withLock { writer } }
                set { lock.withLock { writer = newValue } }
            }

            func append(_ data: Data) {
                rest.append(data)
                // A connection that ended may have left a truncated frame.
                if let start = rest.range(of: Self.preface) {
                    connection += 1
                    rest = Data(rest[start.upperBound...])
                    write(HTTP2Server.settings)
                }
                while rest.count >= 9 {
                    let bytes = [UInt8](rest.prefix(9))
                    let size = 9 + bytes[..<3].reduce(0) { $0 << 8 | Int($1) }
                    guard rest.count >= size else { return }
                    if bytes[3] == 1 { blocks.record(Data(rest.prefix(size).dropFirst(9))) }
                    rest = Data(rest.dropFirst(size))
                    // An early response follows HEADERS. Any other response follows the end of the stream.
                    guard isEarly ? bytes[3] == 1 : bytes[3] <= 1 && bytes[4] & 1 == 1 else { continue }
                    let stream = Stream(connection: connection, number: bytes[5...].reduce(0) { $0 << 8 | Int($1) })
                    streams.record(stream)
                    for frame in answer(stream) { write(frame) }
                }
            }
        }
    }
#endif

#if canImport(CLibcurl)
    /// Sends numbered requests to nginx, every second one a POST, and compares them with the server's log.
    final class HTTP2Load: Sendable {
        private let server: Nginx
        private let manager: @Sendable (Int) throws -> RequestManager
        let failures = EventLog<RequestError>()
        private let ends = EventLog<Void>()
        private let numbers = Locked(0)

        init(_ server: Nginx) {
            self.server = server
            let transport = Result { try CurlTransport(ConnectionOptions.trustingTestAuthority()) }
            manager = { count in
                var configuration = RequestManager.Configuration()
                configuration.maxConcurrentOperationCount = count
                configuration.maxConcurrentPerHost = count
                configuration.transport = .custom(try transport.get())
                return RequestManager(configuration: configuration)
            }
        }

        func run(requests count: Int, atOnce: Int) async throws {
            let manager = try manager(atOnce)
            let first = numbers.withLock { number in
                defer { number += count }
                return number
            }
            let before = ends.count
            for number in first..<(first + count) {
                let url = server.url("/\(number)")
                let request = number.isMultiple(of: 2) ? Request<String>.get(url) : .post(url).body("body \(number)")
                let operation = manager.operation(request)
                operation.onFinish { [self] result in
                    if case .failure(let error) = result { failures.record(error) }
                    ends.record(())
                }
                manager.enqueue(operation)
            }
            await ends.wait(count: before + count)
        }

        /// Expects that the server responded to each request exactly once.
        func expectEachAnsweredOnce(sourceLocation: SourceLocation = #_sourceLocation) async {
            let count = numbers.withLock { $0 }
            await server.answers.wait(count: count, sourceLocation: sourceLocation)
            let targets = server.answers.events.map(\.target)
            #expect(targets.count == count, sourceLocation: sourceLocation)
            #expect(Set(targets).count == targets.count, sourceLocation: sourceLocation)
        }
    }
#endif
