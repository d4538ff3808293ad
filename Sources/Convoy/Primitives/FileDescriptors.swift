// How many more files and sockets this process may open.
#if os(Linux)
    import Foundation

    enum FileDescriptors {
        /// How many may still be opened, counted to a bound.
        ///
        /// Needs none itself. O(bound).
        static func freeCount(upTo bound: Int) -> Int {
            var limit = rlimit()
            guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return bound }
            // The limit is one of numbers, and what is open may have any: the lowest are looked at.
            var numbers = (0..<Int32(clamping: min(2 * UInt(bound), limit.rlim_cur))).map {
                pollfd(fd: $0, events: 0, revents: 0)
            }
            guard poll(&numbers, nfds_t(numbers.count), 0) >= 0 else { return bound }
            return min(bound, numbers.count { $0.revents & Int16(POLLNVAL) != 0 })
        }
    }
#endif
