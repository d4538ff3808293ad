import Convoy
import Foundation

// Without memory Swift ends the process, and without threads libdispatch waits forever. Therefore the needs of a run
// are compared with the limits before its start.
struct ProcessLimits: Equatable {
    var freeBytes: Int?
    var freeDescriptors: Int?

    private static let baseBytes = 16 << 20
    private static let bytesPerJob = 1 << 20
    private static let baseDescriptors = 16
    private static let descriptorsPerJob = 2

    // Call `prepare` before other threads exist.
    static func prepare() -> ProcessLimits {
        var limits = ProcessLimits()
        if let descriptors = raiseDescriptors() {
            // Counts only the first 1,024 descriptors, because the system assigns the lowest free number.
            let openCount = (0..<min(descriptors, 1_024)).count { fcntl(Int32($0), F_GETFD) != -1 }
            limits.freeDescriptors = descriptors - openCount
        }
        #if os(Linux)
            let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
            let used = pages.map { (Int($0) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) }
            // Fields of statm: 0 is the total size, 5 is data and stack.
            let free = [(RLIMIT_AS, 0), (RLIMIT_DATA, 5)].compactMap { resource, index -> Int? in
                guard used.indices.contains(index), let most = most(resource) else { return nil }
                return most - used[index]
            }
            limits.freeBytes = free.min()
            if limits.freeBytes != nil { takeLittleSpace() }
        #endif
        return limits
    }

    func jobs(atMost wanted: Int) throws(UsageError) -> Int {
        let byBytes = try Self.jobs(freeBytes, Self.baseBytes, Self.bytesPerJob) { free, least in
            "there is too little memory: the limit of this process (ulimit -v, ulimit -d) leaves \(free >> 20) MiB, and "
                + "at least \(least >> 20) MiB are needed"
        }
        let byDescriptors = try Self.jobs(freeDescriptors, Self.baseDescriptors, Self.descriptorsPerJob) {
            free, least in
            "there are too few file descriptors: the limit of this process (ulimit -n) leaves \(free), and at least "
                + "\(least) are needed"
        }
        return min(wanted, byBytes, byDescriptors)
    }

    private static func jobs(
        _ free: Int?, _ base: Int, _ perJob: Int, _ message: (_ free: Int, _ least: Int) -> String
    ) throws(UsageError) -> Int {
        guard let free else { return .max }
        guard free >= base + perJob else { throw UsageError(message(max(0, free), base + perJob)) }
        return (free - base) / perJob
    }

    private static let baseThreads = 12
    private static let threadsPerJob = 2
    static let demoThreads = 32

    static func threads(forJobs jobs: Int) -> Int { baseThreads + jobs * threadsPerJob }
    static func jobs(forThreads threads: Int) -> Int { (threads - baseThreads) / threadsPerJob }

    // The function creates the threads to find the number. They end before it returns.
    // No limit of the system tells the number. The limit of the user also counts threads of other processes, and
    // containers have their own limits.
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

        // By default the allocator reserves 64 MiB for each thread, and each stack has 8 MiB.
        // The Swift module of the C library exports neither `mallopt` nor `pthread_setattr_default_np`.
        private static func takeLittleSpace() {
            if let symbol = dlsym(nil, "mallopt") {
                // -8 is M_ARENA_MAX: all threads share one arena of the allocator.
                _ = unsafeBitCast(symbol, to: (@convention(c) (Int32, Int32) -> Int32).self)(-8, 1)
            }
            typealias SetAttributes = @convention(c) (UnsafeMutablePointer<pthread_attr_t>) -> Int32
            var attributes = pthread_attr_t()
            // Stacks get 512 KiB, as a thread of libdispatch has on Darwin.
            guard let symbol = dlsym(nil, "pthread_setattr_default_np"), pthread_attr_init(&attributes) == 0,
                pthread_attr_setstacksize(&attributes, 512 << 10) == 0
            else { return }
            _ = unsafeBitCast(symbol, to: SetAttributes.self)(&attributes)
        }
    #endif
}
