// Brings finished files to the disk, many at once: one journal commit for all of them.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

/// Synchronises files before they get their names, and directories after.
///
/// A file of its own each time costs a disk some milliseconds, whatever its size. Those that are finished while others are
/// being written out go together, in the next round.
///
/// ## Concurrency
/// Use it from any thread. A round is a member of the disk's lanes: it comes behind what downloads are doing there, whose
/// files go with it, and may block as long as the disk wants. No file system has two at once.
final class DiskSync: LaneMember {
    /// A file that is complete.
    struct File: Sendable {
        /// Open until it is placed.
        let descriptor: Int32
        let path: String
        /// The directory that gets its name.
        let directory: String
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
        if begins { DiskLane.lanes.submit(self) }
    }

    /// One round.
    func runLane() {
        let files = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        let problems = DiskLane.lanes.blocking { synchronize(files) }
        let results = zip(files, problems).map { file, problem in
            problem == 0 ? file.place() : .failure(.file("could not be written", file.path, problem))
        }
        var failures: [String: Int32] = [:]
        for (file, result) in zip(files, results) {
            guard case .success = result, failures[file.directory] == nil else { continue }
            failures[file.directory] = DiskLane.lanes.blocking { PartFile.synchronize(directory: file.directory) }
        }
        let goesOn = state.withLock { state in
            state.count -= files.count
            state.isWorking = !state.waiting.isEmpty
            return state.isWorking
        }
        for (file, result) in zip(files, results) {
            let result = result.flatMap { url -> Result<URL, RequestError> in
                let problem = failures[file.directory] ?? 0
                return problem == 0 ? .success(url) : .failure(.nameNotOnDisk(url.path, problem))
            }
            file.completion(result)
        }
        if goesOn { DiskLane.lanes.submit(self) }
    }

    /// - Returns: an error number for each file, 0 for those that are on the disk.
    private func synchronize(_ files: [File]) -> [Int32] {
        #if canImport(CLibcurl)
            // All of them in one go: after that a file is asked for its own errors, which says nothing of the others. To
            // synchronise each of them too would have the disk empty its memory once for each.
            if files.count >= Self.groupCount, convoy_disk_sync(files[0].descriptor) != 0 {
                return files.map { convoy_disk_error($0.descriptor) }
            }
        #endif
        return files.map { PartFile.synchronize($0.descriptor) == 0 ? 0 : errno }
    }
}
