import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

struct Chunks: AsyncSequence, Sendable {
    /// Returns the function that makes the next chunk, for each iteration.
    let makeNext: @Sendable () -> @Sendable () async throws -> Data?

    func makeAsyncIterator() -> Iterator { Iterator(give: makeNext()) }

    struct Iterator: AsyncIteratorProtocol {
        let give: @Sendable () async throws -> Data?
        mutating func next() async throws -> Data? { try await give() }
    }

    /// Bytes in chunks of a size, including an empty chunk.
    ///
    /// Then comes the result of a function, by default the end.
    ///
    /// - Parameter asked: records each read.
    static func of(
        _ data: Data, size: Int = 10_000, asked: EventLog<Int>? = nil,
        then: @escaping @Sendable () async throws -> Data? = { nil }
    ) -> Chunks {
        Chunks {
            let offset = Locked(0)
            let number = Locked(0)
            return {
                let count = number.withLock { number in
                    number += 1
                    return number
                }
                asked?.record(count)
                if count == 2 { return Data() }
                let start = offset.withLock { offset in
                    defer { offset += size }
                    return offset
                }
                // A slice whose first index is not 0.
                return start < data.count ? data[start..<Swift.min(data.count, start + size)] : try await then()
            }
        }
    }
}

struct Bytes: AsyncSequence, Sendable {
    let data: Data

    func makeAsyncIterator() -> Iterator { Iterator(rest: data[...]) }

    struct Iterator: AsyncIteratorProtocol {
        var rest: Data
        mutating func next() async -> UInt8? { rest.popFirst() }
    }
}

/// A stream that returns bytes and then behaves as scripted.
final class ScriptedInput: InputStream {
    enum End {
        case end, failure
        /// The stream reports more bytes than the buffer can hold.
        case lie
    }

    struct Failure: Error {}

    private var rest: Data
    private let end: End
    private let calls: EventLog<String>?
    private var isOpen = false
    private var hasFailed = false

    /// - Parameter calls: records the called members and their threads.
    init(_ data: Data, then end: End = .end, calls: EventLog<String>? = nil) {
        rest = data
        self.end = end
        self.calls = calls
        super.init(data: Data())
    }

    override func open() {
        calls?.record("open on \(currentThreadName())")
        isOpen = true
    }

    override func close() {
        calls?.record("close on \(currentThreadName())")
        isOpen = false
    }

    override var streamStatus: Stream.Status { hasFailed ? .error : isOpen ? .open : .notOpen }
    override var streamError: (any Error)? { hasFailed ? Failure() : nil }
    override var hasBytesAvailable: Bool { true }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
        calls?.record("read on \(currentThreadName())")
        guard !rest.isEmpty else {
            hasFailed = end == .failure
            return switch end {
            case .end: 0
            case .failure: -1
            case .lie: maxLength + 1
            }
        }
        // The stream returns fewer bytes than the buffer can hold, like a network.
        let count = min(maxLength, rest.count, 7_001)
        rest.copyBytes(to: buffer, count: count)
        rest = rest.dropFirst(count)
        return count
    }

    override func getBuffer(
        _: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length _: UnsafeMutablePointer<Int>
    ) -> Bool { false }
}

/// The name of the thread; on Linux the name of the process if the thread has none.
func currentThreadName() -> String {
    #if os(Linux)
        (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8))?.trimmingCharacters(in: .newlines)
            ?? ""
    #else
        Thread.current.name ?? ""
    #endif
}

extension Data {
    private static let pattern = Reply.pattern(range: 0..<4_000_000)

    /// Bytes without repetition, up to 4,000,000, made once.
    static func patterned(_ byteCount: Int) -> Data { Data(pattern.prefix(byteCount)) }
}

struct BodyKind: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Whether the length of the body is announced.
    let hasLength: Bool
    let isSequence: Bool
    let canRepeat: Bool
    /// Whether large bodies take a long time.
    var isSlow: Bool { testDescription == "sequence of bytes" }
    /// Sets the body; a file may be written into the directory.
    let set: @Sendable (Request<Data>, Data, TemporaryDirectory) throws -> Request<Data>

    init(
        _ name: String, hasLength: Bool = true, isSequence: Bool = false, canRepeat: Bool = true,
        set: @escaping @Sendable (Request<Data>, Data, TemporaryDirectory) throws -> Request<Data>
    ) {
        testDescription = name
        self.hasLength = hasLength
        self.isSequence = isSequence
        self.canRepeat = canRepeat
        self.set = set
    }

    static let all: [BodyKind] = [
        BodyKind("data") { request, data, _ in request.body(data) },
        BodyKind("file") { request, data, directory in
            try data.write(to: directory.file("body"))
            return request.body(fromFile: directory.file("body"))
        },
        BodyKind("stream with a length") { request, data, _ in
            request.body(byteCount: Int64(data.count)) { InputStream(data: data) }
        },
        BodyKind("stream without a length", hasLength: false) { request, data, _ in
            request.body { ScriptedInput(data) }
        },
        BodyKind("stream that comes once", hasLength: false, canRepeat: false) { request, data, _ in
            request.body(canRepeat: false) { ScriptedInput(data) }
        },
        BodyKind("sequence with a length", isSequence: true) { request, data, _ in
            request.body(Chunks.of(data), byteCount: Int64(data.count), canRepeat: true)
        },
        BodyKind("sequence without a length", hasLength: false, isSequence: true) { request, data, _ in
            request.body(Chunks.of(data), canRepeat: true)
        },
        BodyKind("sequence that comes once", hasLength: false, isSequence: true, canRepeat: false) { request, data, _ in
            request.body(Chunks.of(data))
        },
        BodyKind("sequence of bytes", hasLength: false, isSequence: true) { request, data, _ in
            request.body(Bytes(data: data), canRepeat: true)
        },
    ]
}

/// A transport and a kind of body that it sends.
struct BodySubject: Sendable, CustomTestStringConvertible {
    let transport: any Transport
    let kind: BodyKind
    let testDescription: String

    /// All combinations.
    ///
    /// URLSession on Linux does not support sequences.
    static let all: [BodySubject] = ConformingTransport.all.flatMap { subject in
        BodyKind.all.filter { !$0.isSequence || subject.waitsForBodies }.map { kind in
            BodySubject(
                transport: subject.transport, kind: kind, testDescription: "\(subject.name), \(kind.testDescription)")
        }
    }

    static let repeatable = all.filter(\.kind.canRepeat)
    static let once = all.filter { !$0.kind.canRepeat }
}

extension ConformingTransport {
    /// Whether a body may come from a sequence.
    var waitsForBodies: Bool {
        #if canImport(FoundationNetworking)
            name != "URLSession"
        #else
            true
        #endif
    }
}

extension RequestBody {
    /// All bytes of a body without a sequence, read through buffers of a size.
    func readAll(bufferSize: Int = 4_096) throws -> Data {
        guard case .blocking(let reader) = try begin() else { throw RequestError(.bodyUnreadable, "a sequence") }
        var result = Data()
        var buffer = [UInt8](repeating: 0, count: bufferSize)
        while case let count = try buffer.withUnsafeMutableBytes({ try reader.read(into: $0).get() }), count > 0 {
            result.append(contentsOf: buffer[..<count])
        }
        return result
    }
}

extension TestServer {
    /// Waits until the connections have ended, then checks that no complete request arrived.
    func expectNothingWhole(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await connectionsClosed(within: .seconds(60))
        for request in recordedRequests {
            #expect(!request.isBodyComplete, "\(request.bodyByteCount) bytes", sourceLocation: sourceLocation)
        }
    }
}

extension Data {
    /// 3,000 bytes, "abc" repeated, compressed by gzip.
    static let zipped =
        Data(base64Encoded: "H4sIAAAAAAACA+3CQREAAAwCoKxq/w6rsQcc6aKqqv5+C0W5K7gLAAA=") ?? Data()
}
