/// Received bytes of a connection that the server has not parsed yet, including pipelined requests.
struct InputBuffer {
    private var storage = [UInt8](repeating: 0, count: 16 * 1024)
    private(set) var start = 0
    private(set) var end = 0

    /// The received bytes that were not removed yet.
    var bytes: ArraySlice<UInt8> { storage[start..<end] }
    var isEmpty: Bool { start == end }

    /// Receives once, and blocks until bytes arrive.
    ///
    /// The result is false at the end of the stream or after a failure.
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

    /// Removes and returns the first bytes, at most `count`.
    mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        let first = start
        start += min(max(0, count), end - start)
        return storage[first..<start]
    }

    /// The length of the first request head including its empty line; nil if the head is incomplete.
    ///
    /// - Parameter scanned: the number of bytes that earlier calls scanned, so that each byte is scanned once.
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

    /// The length of the first line including its line feed; nil if the line is incomplete.
    var firstLineLength: Int? {
        bytes.firstIndex(of: 0x0A).map { $0 + 1 - start }
    }
}
