// How many more files and sockets this process may open.
#if os(Linux)
    import Foundation

    enum FileDescriptors {
        /// Above this limit a process is taken to have as many as it wants: looking at each number would take too long.
        private static let mostLookedAt: rlim_t = 16_384

        /// How many may still be opened; `Int.max` where the limit is high.
        ///
        /// Needs none itself. O(*n*) for a limit of *n*, which is one of numbers: what is open may have any.
        static var freeCount: Int {
            var limit = rlimit()
            guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur <= mostLookedAt
            else { return .max }
            var numbers = (0..<Int32(limit.rlim_cur)).map { pollfd(fd: $0, events: 0, revents: 0) }
            guard poll(&numbers, nfds_t(numbers.count), 0) >= 0 else { return .max }
            return numbers.count { $0.revents & Int16(POLLNVAL) != 0 }
        }
    }
#endif
