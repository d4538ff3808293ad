extension [UInt8] {
    /// A large body of 256 different bytes, repeated.
    ///
    /// It is built from blocks, because single bytes take seconds in a debug build.
    static func pattern(byteCount: Int) -> [UInt8] {
        let block = (0...255).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        while bytes.count < byteCount { bytes += block.prefix(byteCount - bytes.count) }
        return bytes
    }
}
