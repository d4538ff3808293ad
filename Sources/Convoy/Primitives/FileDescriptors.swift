// The number of file descriptors that this process may still open.
#if os(Linux)
    import Foundation

    enum FileDescriptors {
        private static let mostLookedAt: rlim_t = 16_384

        // `Int.max` when the limit is above 16,384 or unknown. O(*n*) for a limit of *n*, because open descriptors may
        // have any number below the limit; no descriptor is opened.
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
