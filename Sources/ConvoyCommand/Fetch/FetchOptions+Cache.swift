// The cache of a run.
import ConvoyCache
import Foundation

extension FetchOptions {
    /// Makes the cache; nil without `--cache`.
    ///
    /// Warns if the directory cannot be written.
    func makeCache(_ warn: (String) -> Void) -> HTTPCache? {
        guard let path = cacheDirectory else { return nil }
        let directory = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
        try? FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let problem = FileType.problem(with: path, isDirectory: true)
        if problem != 0 {
            warn("the cache is not used, because \(path) cannot be written: \(String(cString: strerror(problem)))")
        }
        return HTTPCache(directory: directory, capacity: cacheBytes)
    }
}

extension HTTPCache {
    /// Waits until the cache has written all responses, at most ten seconds.
    ///
    /// The cache's `statistics` return only after the writes.
    func finishStoring() {
        let isOver = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = self.statistics
            isOver.signal()
        }
        _ = isOver.wait(timeout: .now() + 10)
    }
}
