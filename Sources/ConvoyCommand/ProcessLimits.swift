// What the system lets this process have: address space and descriptors.
import Convoy
import Foundation

/// How much the process may still take, and how many requests in flight that is enough for.
///
/// Neither Swift nor libdispatch can go on without memory or threads: the former ends the process, the latter waits for
/// ever. So what a run needs is compared with the limits before it begins.
struct ProcessLimits: Equatable {
    /// Bytes of address space and of data that are left; nil where there is no limit.
    var freeBytes: Int?
    /// Descriptors that are left; nil where there is no limit.
    var freeDescriptors: Int?

    /// What a run takes, measured, with room to spare: threads, buffers and, once, the certificates.
    private static let baseBytes = 16 << 20
    /// A thread for the file, its stack included, and what libcurl keeps for a transfer.
    private static let bytesPerJob = 1 << 20
    /// libdispatch, signals, the transfer threads, a name lookup.
    private static let baseDescriptors = 16
    /// A socket and a file.
    private static let descriptorsPerJob = 2

    /// Allows itself what the system allows, takes less where that is little, and looks what is left.
    ///
    /// Before there is any other thread.
    static func prepare() -> ProcessLimits {
        var limits = ProcessLimits()
        if let descriptors = raiseDescriptors() {
            // Those that are open have the lowest numbers, or are few.
            let openCount = (0..<min(descriptors, 1_024)).count { fcntl(Int32($0), F_GETFD) != -1 }
            limits.freeDescriptors = descriptors - openCount
        }
        #if os(Linux)
            let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
            let used = pages.map { (Int($0) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) }
            // The whole, and what is private and may be written.
            let free = [(RLIMIT_AS, 0), (RLIMIT_DATA, 5)].compactMap { resource, index -> Int? in
                guard used.indices.contains(index), let most = most(resource) else { return nil }
                return most - used[index]
            }
            limits.freeBytes = free.min()
            if limits.freeBytes != nil { takeLittleSpace() }
        #endif
        return limits
    }

    /// How many of these requests may be in flight.
    ///
    /// - Throws: when not even one may.
    func jobs(atMost wanted: Int, for command: String) throws(UsageError) -> Int {
        var jobs = wanted
        if let freeBytes {
            let least = Self.baseBytes + Self.bytesPerJob
            guard freeBytes >= least else {
                throw UsageError(
                    "there is too little memory: the limit of this process (ulimit -v, ulimit -d) leaves "
                        + "\(max(0, freeBytes) >> 20) MiB, and at least \(least >> 20) MiB are needed",
                    command: command)
            }
            jobs = min(jobs, (freeBytes - Self.baseBytes) / Self.bytesPerJob)
        }
        if let freeDescriptors {
            let least = Self.baseDescriptors + Self.descriptorsPerJob
            guard freeDescriptors >= least else {
                throw UsageError(
                    "there are too few file descriptors: the limit of this process (ulimit -n) leaves "
                        + "\(max(0, freeDescriptors)), and at least \(least) are needed",
                    command: command)
            }
            jobs = min(jobs, (freeDescriptors - Self.baseDescriptors) / Self.descriptorsPerJob)
        }
        return jobs
    }

    // MARK: Threads

    /// The runtime's, libcurl's and one for a name lookup, measured, with room to spare.
    private static let baseThreads = 12
    /// A file's queue, and what follows its end.
    private static let threadsPerJob = 2
    /// For the demo's server too.
    static let demoThreads = 32

    /// How many threads so many jobs take.
    static func threads(forJobs jobs: Int) -> Int { baseThreads + jobs * threadsPerJob }
    static func jobs(forThreads threads: Int) -> Int { (threads - baseThreads) / threadsPerJob }

    /// How many threads can be made, found by making them; they end before it returns.
    ///
    /// No limit tells: those of the user count the threads of other processes too, and containers have their own.
    static func freeThreads(atMost wanted: Int) -> Int {
        let gate = Locked(())
        let threads: [PlainThread] = gate.withLock { _ in
            var threads: [PlainThread] = []
            while threads.count < wanted {
                guard let thread = PlainThread(stackBytes: 64 << 10, { gate.withLock { _ in } }) else { break }
                threads.append(thread)
            }
            return threads
        }
        for thread in threads { thread.join() }
        return threads.count
    }

    /// Raises the limit of descriptors as far as is allowed, and tells it; nil where there is none.
    private static func raiseDescriptors() -> Int? {
        #if canImport(Darwin)
            let descriptors = RLIMIT_NOFILE
        #else
            let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #endif
        var limit = rlimit()
        guard getrlimit(descriptors, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(descriptors, &raised) == 0 { limit = raised }
        }
        return limit.rlim_cur == rlim_t.max ? nil : Int(clamping: limit.rlim_cur)
    }

    #if os(Linux)
        private static func most(_ resource: __rlimit_resource) -> Int? {
            var limit = rlimit()
            guard getrlimit(__rlimit_resource_t(resource.rawValue), &limit) == 0, limit.rlim_cur != rlim_t.max else {
                return nil
            }
            return Int(clamping: limit.rlim_cur)
        }

        /// The allocator reserves 64 MiB for each thread, and each thread has a stack of 8 MiB: that is most of a limit.
        ///
        /// The modules of the C library leave out what changes that.
        private static func takeLittleSpace() {
            if let symbol = dlsym(nil, "mallopt") {
                // M_ARENA_MAX.
                _ = unsafeBitCast(symbol, to: (@convention(c) (Int32, Int32) -> Int32).self)(-8, 1)
            }
            typealias SetAttributes = @convention(c) (UnsafeMutablePointer<pthread_attr_t>) -> Int32
            var attributes = pthread_attr_t()
            // As much as a thread of libdispatch has on Darwin.
            guard let symbol = dlsym(nil, "pthread_setattr_default_np"), pthread_attr_init(&attributes) == 0,
                pthread_attr_setstacksize(&attributes, 512 << 10) == 0
            else { return }
            _ = unsafeBitCast(symbol, to: SetAttributes.self)(&attributes)
        }
    #endif
}
