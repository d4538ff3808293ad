// Brings finished files to the disk, many at once: one journal commit for all of them.
import Foundation

/// Synchronises files before they get their names, and directories after.
///
/// A file of its own each time costs a disk some milliseconds, whatever its size. Those that are finished while others are
/// being written out go together, in the next round.
///
/// ## Concurrency
/// Use it from any thread. Each file system has a queue of its own, which may block as long as the disk wants.
final class DiskSync: Sendable {
    /// A file that is complete.
    struct File: Sendable {
        /// Open until it is placed.
        let descriptor: Int32
        let path: String
        /// Gives it its name.
        let place: @Sendable () -> Result<URL, RequestError>
        let completion: @Sendable (Result<URL, RequestError>) -> Void
    }

    private struct State {
        var waiting: [File] = []
        var isWorking = false
        var count = 0
    }

    /// From how many files on the whole file system is synchronised before each of them.
    private static let groupCount = 4
    /// How many may be on their way to the disk while others take their places in the network.
    private static let crowdCount = 128

    private static let all = Locked([dev_t: DiskSync]())

    /// The one for a file system.
    static func of(_ device: dev_t) -> DiskSync {
        all.withLock { all in
            let sync = all[device] ?? DiskSync()
            all[device] = sync
            return sync
        }
    }

    #if os(Linux)
        /// The module of the C library leaves it out.
        ///
        /// It tells no more than that something could not be written since its descriptor was opened, and before Linux 5.8
        /// nothing at all.
        private static let syncfs: (@Sendable @convention(c) (Int32) -> Int32)? = dlsym(nil, "syncfs").map {
            unsafeBitCast($0, to: (@Sendable @convention(c) (Int32) -> Int32).self)
        }
    #endif

    private let queue = DispatchQueue(label: "convoy.disk")
    private let state = Locked(State())

    /// Whether so many are on their way to some disk that a download should keep its place until it is there too.
    static var isCrowded: Bool {
        all.withLock { Array($0.values) }.contains { $0.state.withLock { $0.count >= crowdCount } }
    }

    /// Has a file's bytes on the disk, then its name, then tells.
    func commit(_ file: File) {
        let begins = state.withLock { state in
            state.waiting.append(file)
            state.count += 1
            defer { state.isWorking = true }
            return !state.isWorking
        }
        if begins { queue.async { self.work() } }
    }

    private func work() {
        while let files = takeWaiting() {
            let problems = synchronize(files)
            let results = zip(files, problems).map { file, problem in
                problem == 0 ? file.place() : .failure(.file("could not be written", file.path, problem))
            }
            let directories = Set(results.compactMap { try? $0.get().deletingLastPathComponent().path })
            let failures = directories.reduce(into: [String: Int32]()) { failures, directory in
                failures[directory] = PartFile.synchronize(directory: directory)
            }
            state.withLock { $0.count -= files.count }
            for (file, result) in zip(files, results) {
                let result = result.flatMap { url -> Result<URL, RequestError> in
                    let problem = failures[url.deletingLastPathComponent().path] ?? 0
                    return problem == 0 ? .success(url) : .failure(.nameNotOnDisk(url.path, problem))
                }
                file.completion(result)
            }
        }
    }

    private func takeWaiting() -> [File]? {
        state.withLock { state in
            defer { state.waiting = [] }
            if state.waiting.isEmpty { state.isWorking = false }
            return state.waiting.isEmpty ? nil : state.waiting
        }
    }

    /// - Returns: an error number for each file, 0 for those that are on the disk.
    private func synchronize(_ files: [File]) -> [Int32] {
        #if os(Linux)
            // All of them in one go. What it returns is of the whole file system, or of nothing: each file is asked below.
            if files.count >= Self.groupCount { _ = Self.syncfs?(files[0].descriptor) }
        #endif
        return files.map { PartFile.synchronize($0.descriptor) == 0 ? 0 : errno }
    }
}
