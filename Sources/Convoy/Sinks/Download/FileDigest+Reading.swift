// The digest of an existing file.
import Foundation

extension FileDigest {
    /// Reads a file and computes its digest.
    ///
    /// - Parameter isWanted: called before each MiB. If it returns false, the result is nil.
    static func ofFile(
        _ path: String, _ algorithm: Algorithm, while isWanted: () -> Bool
    ) throws(RequestError) -> FileDigest? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .file("could not be read", path, errno) }
        defer { close(descriptor) }
        let digest = RunningDigest(algorithm)
        while isWanted() {
            var data = Data(count: 1 << 20)
            let count = data.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count > 0 { digest.update(data.prefix(count)) }
            if count == 0 { return try digest.finish(of: path) }
            if count < 0, errno != EINTR { throw .file("could not be read", path, errno) }
        }
        return nil
    }
}
