import Convoy
import ConvoyHTTPFile
import Foundation

// Several runs may share the file. A line is written when the last request of a row has ended, without fsync: a killed
// process loses no line, a power failure may lose the last ones, whose rows are then run again.
final class RowJournal: Sendable {
    let path: String
    private let descriptor: Int32
    private let known: Set<UInt64>
    // Nothing is written after a failure, because the file may end in the middle of a line.
    private let failure = Locked<Int32?>(nil)

    init(_ path: String) throws(UsageError) {
        self.path = path
        func refusal(_ code: Int32) -> UsageError {
            UsageError("--done: \(path) cannot be used: \(String(cString: strerror(code)))")
        }
        let descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o666)
        guard descriptor >= 0 else { throw refusal(errno) }
        guard FileType.of(descriptor) == S_IFREG else {
            close(descriptor)
            throw UsageError("--done: \(path) is not a file")
        }
        var known: Set<UInt64> = []
        var splitter = LineSplitter()
        var lines: [NumberedLine] = []
        var block = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = block.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                let code = errno
                close(descriptor)
                throw refusal(code)
            }
            if count == 0 { break }
            lines = splitter.split(block[..<count])
            guard lines.allSatisfy(Self.isOwn) else { break }
            for case .text(let line) in lines.map(\.content) where line.utf8.count == 16 {
                if let key = UInt64(line, radix: 16) { known.insert(key) }
            }
        }
        let last = splitter.finish()
        guard lines.allSatisfy(Self.isOwn), last.map(Self.isOwn) != false else {
            close(descriptor)
            throw UsageError("--done: \(path) contains other lines than those of --done: name another file")
        }
        (self.descriptor, self.known) = (descriptor, known)
        // Ends the last line, if it is truncated.
        if last != nil, let code = write("\n") { throw refusal(code) }
    }

    deinit { close(descriptor) }

    private static func isOwn(_ line: NumberedLine) -> Bool {
        guard case .text(let text) = line.content else { return false }
        return text.utf8.count < 32 && text.allSatisfy(\.isHexDigit)
    }

    var hasFailed: Bool { failure.withLock { $0 != nil } }

    func has(_ row: Row) -> Bool { known.contains(Self.key(of: row)) }

    func note(_ row: Row) -> String? {
        let earlier = failure.withLock { $0 }
        guard let code = earlier ?? write(String(format: "%016llx\n", Self.key(of: row))) else { return nil }
        failure.withLock { $0 = code }
        return "\(path) cannot be written: \(String(cString: strerror(code)))"
    }

    /// Writes a line with one call, so that lines of several processes do not mix.
    private func write(_ text: String) -> Int32? {
        let bytes = Array(text.utf8)
        while true {
            let count = bytes.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count == bytes.count { return nil }
            if count >= 0 { return ENOSPC }
            if errno != EINTR { return errno }
        }
    }

    /// The hash of a row and its line number, so that two equal rows are both run.
    private static func key(of row: Row) -> UInt64 { Shard.hash("\(row.line)\t\(row.text)") }
}
