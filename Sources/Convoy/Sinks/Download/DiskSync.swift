// Synchronises finished files with the disk in groups, with one journal commit for each group.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

/// Synchronises files before they are renamed, and directories afterwards.
///
/// Synchronising even a small file takes a disk milliseconds. So files are synchronised in rounds: files that finish
/// during a round are synchronised together in the next one.
///
/// ## Concurrency
/// Any thread may use an instance. A round runs on the pool of `DiskExecutor`, after the code that was queued before
/// the round. The round includes the files that this code commits, and blocks as long as the disk does. Each file
/// system has at most one round at a time.
final class DiskSync: ExecutorMember {
    /// A complete part, to be synchronised and renamed to its file.
    struct File: Sendable {
        /// The descriptor of the part, open until the part is renamed.
        let descriptor: Int32
        /// The directory of the file.
        let directory: String
        /// Renames the part to the file, unless the argument is the error number of a failed synchronisation.
        let place: @Sendable (_ problem: Int32) -> Result<URL, RequestError>
        let completion: @Sendable (Result<URL, RequestError>) -> Void
    }

    private struct State {
        var waiting: [File] = []
        var isWorking = false
        var count = 0
    }

    /// From this number of files on, the file system is synchronised once, instead of each file.
    private static let groupCount = 4
    /// The number of waiting files at which a download keeps its slot until its file is synchronised.
    private static let crowdCount = 128

    private static let all = Locked([dev_t: DiskSync]())

    /// The instance for a file system.
    static func of(_ device: dev_t) -> DiskSync {
        all.withLock { all in
            let sync = all[device] ?? DiskSync()
            all[device] = sync
            return sync
        }
    }

    private let state = Locked(State())

    /// Whether so many files wait for a disk that a download must not release its slot before its file is synchronised.
    static var isCrowded: Bool {
        all.withLock { Array($0.values) }.contains { $0.state.withLock { $0.count >= crowdCount } }
    }

    /// Synchronises a file, renames it, then reports the result.
    func commit(_ file: File) {
        let begins = state.withLock { state in
            state.waiting.append(file)
            state.count += 1
            defer { state.isWorking = true }
            return !state.isWorking
        }
        if begins { DiskExecutor.executors.submit(self) }
    }

    /// Runs one round: synchronises the waiting files, renames them and reports the results.
    func runExecutor() {
        let files = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        let problems = DiskExecutor.executors.blocking { synchronize(files) }
        let results = zip(files, problems).map { file, problem in file.place(problem) }
        var failures: [String: Int32] = [:]
        for (file, result) in zip(files, results) {
            guard case .success = result, failures[file.directory] == nil else { continue }
            failures[file.directory] = DiskExecutor.executors.blocking {
                PartFile.synchronize(directory: file.directory)
            }
        }
        let hasMore = state.withLock { state in
            state.count -= files.count
            state.isWorking = !state.waiting.isEmpty
            return state.isWorking
        }
        // The next round is queued before the completions are called, because a completion may block.
        if hasMore { DiskExecutor.executors.submit(self) }
        for (file, result) in zip(files, results) {
            let result = result.flatMap { url -> Result<URL, RequestError> in
                let problem = failures[file.directory] ?? 0
                return problem == 0 ? .success(url) : .failure(.nameNotOnDisk(url.path, problem))
            }
            file.completion(result)
        }
    }

    /// - Returns: an error number for each file; 0 for files that are on the disk.
    private func synchronize(_ files: [File]) -> [Int32] {
        #if canImport(CLibcurl)
            // Synchronises the file system once, then reads each file's error. Synchronising each file would flush
            // the disk's cache once for each file.
            if files.count >= Self.groupCount, convoy_disk_sync(files[0].descriptor) != 0 {
                return files.map { convoy_disk_error($0.descriptor) }
            }
        #endif
        return files.map { PartFile.synchronize($0.descriptor) == 0 ? 0 : errno }
    }
}
