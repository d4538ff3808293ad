extension [UInt8] {
    /// A large body: 256 different bytes, over and over.
    ///
    /// Appended block by block: byte by byte takes seconds in a debug build.
    static func pattern(byteCount: Int) -> [UInt8] {
        let block = (0...255).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        while bytes.count < byteCount { bytes += block.prefix(byteCount - bytes.count) }
        return bytes
    }
}
