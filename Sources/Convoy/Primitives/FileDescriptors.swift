// The number of file descriptors that this process may still open.
#if os(Linux)
    import Foundation

    enum FileDescriptors {
        private static let mostLookedAt: rlim_t = 16_384

        // `Int.max` if the limit is unknown or above 16,384. O(*n*) for a limit of *n*; opens no descriptor.
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
