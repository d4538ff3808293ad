// `--done`: which rows need not be run again.
import ConvoyHTTPFile
import Foundation

/// The rows that have ended well, in a file of a line each, which several runs may share.
///
/// A line is written when the last request of its row has ended, and not synced: a process that is killed loses none, a
/// machine that loses its power the last ones, whose rows are then run once more.
final class RowJournal: Sendable {
    let path: String
    private let descriptor: Int32
    /// Of the rows that were done before.
    private let known: Set<UInt64>

    /// Opens the file, or makes it.
    init(_ path: String) throws(UsageError) {
        self.path = path
        func refusal(_ code: Int32) -> UsageError {
            RunOptions.error("--done: \(path) cannot be used: \(String(cString: strerror(code)))")
        }
        let descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o666)
        guard descriptor >= 0 else { throw refusal(errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw RunOptions.error("--done: \(path) is not a file")
        }
        var known: Set<UInt64> = []
        var line: [UInt8] = []
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
            for byte in block[..<count] {
                guard byte == UInt8(ascii: "\n") else {
                    if line.count < 17 { line.append(byte) }
                    continue
                }
                if line.count == 16, let key = UInt64(String(decoding: line, as: UTF8.self), radix: 16) {
                    known.insert(key)
                }
                line.removeAll(keepingCapacity: true)
            }
        }
        (self.descriptor, self.known) = (descriptor, known)
        // A line that was cut ends here.
        if !line.isEmpty, let code = write("\n") { throw refusal(code) }
    }

    deinit { close(descriptor) }

    func has(_ row: Row) -> Bool { known.contains(Self.key(of: row)) }

    /// Notes a row; what is wrong where that cannot be.
    func note(_ row: Row) -> String? {
        let digits = String(Self.key(of: row), radix: 16)
        let line = String(repeating: "0", count: 16 - digits.count) + digits + "\n"
        return write(line).map { "\(path) cannot be written: \(String(cString: strerror($0)))" }
    }

    /// In one call: lines of several processes do not mix.
    private func write(_ text: String) -> Int32? {
        let bytes = Array(text.utf8)
        while true {
            let count = bytes.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count == bytes.count { return nil }
            if count >= 0 { return ENOSPC }
            if errno != EINTR { return errno }
        }
    }

    /// The number of the line counts: of two rows that are equal both are run.
    private static func key(of row: Row) -> UInt64 { Shard.hash("\(row.line)\t\(row.text)") }
}
