// Bytes of an open file, which a download copies without reading them into memory.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

/// A range of bytes of an open file.
package struct FileBytes: Sendable {
    package let descriptor: Int32
    package let range: Range<Int64>
    /// The owner of the descriptor, retained so that the file stays open.
    private let owner: any AnyObject & Sendable
    /// Called on any thread if a read fails or the file ends before the range does.
    private let whenUnreadable: @Sendable () -> Void
    #if canImport(CLibcurl)
        /// The call that copies inside the kernel; nil for the system's `copy_file_range`.
        var kernelCopy: convoy_copy_call?
    #endif

    package init(
        _ descriptor: Int32, _ range: Range<Int64>, of owner: any AnyObject & Sendable,
        whenUnreadable: @escaping @Sendable () -> Void = {}
    ) {
        (self.descriptor, self.range, self.owner) = (descriptor, range, owner)
        self.whenUnreadable = whenUnreadable
    }

    package var count: Int64 { range.upperBound - range.lowerBound }

    /// Reads some of the bytes; nil on failure or after the end.
    func read(at offset: Int64, count: Int) -> Data? {
        var data = Data(count: count)
        while true {
            let got = data.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
            if got > 0 { return data.prefix(got) }
            if got < 0, errno == EINTR { continue }
            whenUnreadable()
            return nil
        }
    }
}

extension DownloadTarget {
    func write(_ source: FileBytes) throws(RequestError) { try writePieces(of: source, from: source.range.lowerBound) }

    /// Reads and writes bytes of a file in pieces.
    func writePieces(of source: FileBytes, from start: Int64) throws(RequestError) {
        var offset = start
        while offset < source.range.upperBound, !isStopped {
            let count = Int(min(1 << 20, source.range.upperBound - offset))
            guard let data = source.read(at: offset, count: count) else {
                throw RequestError(.connectionLost, "the stored body could not be read completely")
            }
            try write(data)
            offset += Int64(data.count)
        }
    }
}

extension PartFile {
    /// Appends bytes of a file inside the kernel: all as a clone if the file system supports it, or else some as a
    /// copy.
    ///
    /// - Parameter offset: the position of the first byte in the source.
    /// - Returns: the number of copied bytes. If it is zero, the bytes must be read and written.
    func append(_ source: FileBytes, from offset: Int64) throws(RequestError) -> Int64 {
        #if canImport(CLibcurl)
            let rest = source.range.upperBound - offset
            let copied = convoy_disk_copy(
                descriptor, byteCount, source.descriptor, offset, rest, source.kernelCopy)
            guard copied >= 0 else { throw .file("could not be written", path, Int32(clamping: -copied)) }
            byteCount += copied
            return copied
        #else
            return 0
        #endif
    }
}
