import Foundation
import Testing

@testable import Convoy

#if os(Linux)
    @Suite struct FileDescriptorsTests {
        /// The descriptors may have any numbers, and any number of them may be open.
        @Test(arguments: [200, 5_000])
        func aClosedDescriptorIsFree(limit: Int) async {
            await #expect(processExitsWith: .success) { [limit] in
                endProcessIfStuck()
                var given = rlimit()
                #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                given.rlim_cur = min(rlim_t(limit), given.rlim_max)
                #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &given) == 0)
                var taken: [Int32] = []
                // The runtime opens and closes files of its own, so the loop repeats until it has taken all free
                // descriptors.
                repeat {
                    while case let descriptor = open("/dev/null", O_RDONLY), descriptor >= 0 {
                        taken.append(descriptor)
                    }
                } while FileDescriptors.freeCount != 0
                for index in [0, taken.count / 2, taken.count - 1] { close(taken[index]) }
                while FileDescriptors.freeCount != 3 { sched_yield() }
            }
        }
    }
#endif
