import Convoy
import Foundation

// UTF-8, or UTF-16 with a byte order mark. One task calls `next()`. `read` may block the thread of a private queue,
// but no thread of a task. ``stop()`` may be called from any thread, and ends a waiting call at once; a thread that
// `read` blocks may remain until the process exits.
final class LineReader: Sendable {
    enum Read: Equatable, Sendable {
        case line(NumberedLine)
        case failed(reason: String)
    }

    private struct State {
        var splitter = LineSplitter()
        var decoder = UTF16Decoder()
        var ready: [Read] = []
        var waiting: CheckedContinuation<Read?, Never>?
        var hasEnded = false
    }

    private static let blockBytes = 64 * 1_024

    let name: String
    private let descriptor: Int32
    private let state = Locked(State())
    private let queue = DispatchQueue(label: "convoy.input")
    private let isFile: Bool

    private init(descriptor: Int32, name: String) {
        (self.descriptor, self.name) = (descriptor, name)
        isFile = FileType.of(descriptor) == S_IFREG
    }

    deinit { if descriptor != STDIN_FILENO { close(descriptor) } }

    static func open(_ path: String) throws(UsageError) -> LineReader {
        let name = path == "-" ? "standard input" : path
        func refusal(_ code: Int32) -> UsageError { UsageError("the list \(name) cannot be read: \(reason(code))") }
        let descriptor = path == "-" ? STDIN_FILENO : Foundation.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw refusal(errno) }
        let reader = LineReader(descriptor: descriptor, name: name)
        guard StandardStreams.isGiven(descriptor) else { throw refusal(EBADF) }
        guard let type = FileType.of(descriptor) else { throw refusal(errno) }
        guard type != S_IFDIR else { throw refusal(EISDIR) }
        return reader
    }

    private static func reason(_ code: Int32) -> String { String(cString: strerror(code)) }

    var hasLine: Bool { isFile || state.withLock { !$0.ready.isEmpty || $0.hasEnded } }

    func next() async -> Read? {
        await withCheckedContinuation { continuation in
            let ready: Read?? = state.withLock { state in
                if let read = state.ready.popLast() { return .some(read) }
                if state.hasEnded { return .some(nil) }
                state.waiting = continuation
                return nil
            }
            if let ready { continuation.resume(returning: ready) } else { queue.async { self.fill() } }
        }
    }

    func stop() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            state.ready = []
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume(returning: nil)
    }

    private func fill() {
        var block = [UInt8](repeating: 0, count: Self.blockBytes)
        var isWanted = true
        while isWanted {
            let count = block.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                StandardStreams.wait(for: descriptor, POLLIN)
                continue
            }
            let problem = count < 0 ? errno : 0
            isWanted = take(block.prefix(max(0, count)), isEnd: count <= 0, problem)
        }
    }

    private func take(_ bytes: ArraySlice<UInt8>, isEnd: Bool, _ problem: Int32) -> Bool {
        let (waiting, read): (CheckedContinuation<Read?, Never>?, Read?) = state.withLock { state in
            guard !state.hasEnded else { return (nil, nil) }
            let bytes = state.decoder.utf8(of: bytes, isEnd: isEnd)
            var lines = state.splitter.split(bytes).map(Read.line)
            if isEnd {
                if let last = state.splitter.finish() { lines.append(.line(last)) }
                if problem != 0 { lines.append(.failed(reason: Self.reason(problem))) }
                state.hasEnded = true
            }
            state.ready = lines.reversed()
            guard isEnd || !lines.isEmpty else { return (state.waiting, nil) }
            defer { state.waiting = nil }
            return (state.waiting, state.ready.popLast())
        }
        guard read != nil || isEnd else { return waiting != nil }
        waiting?.resume(returning: read)
        return false
    }
}

struct UTF16Decoder {
    private var open: [UInt8] = []
    private var isUTF16: Bool?
    private var isBigEndian = false

    /// Returns the characters that a block completes; invalid UTF-16 becomes a byte that is invalid in UTF-8.
    mutating func utf8(of block: ArraySlice<UInt8>, isEnd: Bool) -> ArraySlice<UInt8> {
        if isUTF16 == false { return block }
        open += block
        if isUTF16 == nil {
            guard isEnd || open.count >= 2 || open.contains(where: { $0 < 0xFE }) else { return [] }
            isBigEndian = open.starts(with: [0xFE, 0xFF])
            isUTF16 = isBigEndian || open.starts(with: [0xFF, 0xFE])
        }
        let bytes = open
        open = []
        guard isUTF16 == true else { return bytes[...] }
        var units = stride(from: 0, to: bytes.count - 1, by: 2).map { index in
            let (first, second) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
            return isBigEndian ? first << 8 | second : second << 8 | first
        }
        if !isEnd {
            // The low half of a surrogate pair may be in the next block.
            if let last = units.last, UTF16.isLeadSurrogate(last) { units.removeLast() }
            open = Array(bytes[(2 * units.count)...])
        }
        var (parser, iterator, text) = (Unicode.UTF16.ForwardParser(), units.makeIterator(), [UInt8]())
        while true {
            switch parser.parseScalar(from: &iterator) {
            case .valid(let scalar): text += UTF8.encode(UTF16.decode(scalar)) ?? UTF8.encodedReplacementCharacter
            case .error: text.append(0xFF)
            case .emptyInput:
                if isEnd, !bytes.count.isMultiple(of: 2) { text.append(0xFF) }
                return text[...]
            }
        }
    }
}

struct NumberedLine: Equatable, Sendable {
    enum Content: Equatable, Sendable {
        case text(String)
        case broken(reason: String)
    }

    let number: Int
    let content: Content
}

// A byte order mark at the start is removed.
// The splitter stores only the last, incomplete line, up to a limit.
struct LineSplitter {
    static let limitBytes = 64 * 1_024
    static let limitBytesOfXML = 16 << 20

    private var open: [UInt8] = []
    private var isDocument: Bool?
    private var isTooLong = false
    private var lineCount = 0

    mutating func split(_ block: some Collection<UInt8>) -> [NumberedLine] {
        var lines: [NumberedLine] = []
        var rest = block[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            keep(rest[..<end])
            lines.append(takeLine())
            rest = rest[rest.index(after: end)...]
        }
        keep(rest)
        return lines
    }

    mutating func finish() -> NumberedLine? { open.isEmpty && !isTooLong ? nil : takeLine() }

    private mutating func keep(_ bytes: some Collection<UInt8>) {
        guard !isTooLong else { return }
        open += bytes
        if isDocument == nil, let first = open.first(where: { !Self.blanks.contains($0) }), first != UInt8(ascii: "#") {
            isDocument = first == UInt8(ascii: "<") || first == UInt8(ascii: "[")
        }
        isTooLong = open.count > limit
        if isTooLong { open = [] }
    }

    private var limit: Int { isDocument == true ? Self.limitBytesOfXML : Self.limitBytes }

    private static let blanks: Set<UInt8> = [0x20, 0x09, 0x0D, 0xEF, 0xBB, 0xBF]

    private mutating func takeLine() -> NumberedLine {
        defer {
            open.removeAll(keepingCapacity: true)
            isTooLong = false
        }
        lineCount += 1
        return NumberedLine(number: lineCount, content: content)
    }

    private var content: NumberedLine.Content {
        if isTooLong { return .broken(reason: "it is longer than \(limit) bytes") }
        var bytes = open[...]
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        if lineCount == 1, bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        if bytes.contains(0) { return .broken(reason: "it contains NUL") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            return .broken(reason: "it is not valid UTF-8")
        }
        return .text(text)
    }
}
