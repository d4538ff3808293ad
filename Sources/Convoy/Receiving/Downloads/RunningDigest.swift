// The digest of a file while it arrives.
import Foundation

/// A digest in the making, which can be put aside and gone on with, by another process too.
struct RunningDigest: Sendable {
    let algorithm: FileDigest.Algorithm
    private var function: any ResumableHashFunction

    init(_ algorithm: FileDigest.Algorithm) {
        self.algorithm = algorithm
        function = algorithm.function.init()
    }

    /// Goes on from a saved state; nil when these bytes are not one of that function, undamaged.
    init?(_ algorithm: FileDigest.Algorithm, savedState: Data) {
        guard let function = algorithm.function.init(savedState: savedState) else { return nil }
        self.algorithm = algorithm
        self.function = function
    }

    /// How many bytes it has taken, those before a saved state included.
    var byteCount: Int64 { Int64(clamping: function.byteCount) }

    /// Everything that is needed to go on: at most 300 bytes.
    var savedState: Data { function.savedState }

    /// Takes the next bytes; how they are cut makes no difference.
    mutating func update(_ bytes: UnsafeRawBufferPointer) { function.update(bytes) }

    /// The digest of everything so far; feeding may go on afterwards.
    func finish() -> FileDigest { FileDigest(algorithm, bytes: function.finish()) }
}

extension FileDigest.Algorithm {
    fileprivate var function: any ResumableHashFunction.Type {
        switch self {
        case .sha256: SHA256.self
        case .sha512: SHA512.self
        }
    }
}
