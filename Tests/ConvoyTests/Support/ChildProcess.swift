// Functions for exit tests, which run in a separate process.
import Foundation
import Testing

/// Ends this child process with exit status 9 after a number of seconds.
///
/// The default exceeds the usual limit of a wait, 120 seconds, so that such a wait records its issue first.
func endProcessIfStuck(after seconds: Int = 150) {
    Thread.detachNewThread {
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .seconds(seconds))
        _exit(9)
    }
}

#if os(Linux)
    /// The number of open descriptors of this process below 4096, plus one, as in a listing of `/proc/self/fd`.
    ///
    /// Such a listing may fail while another thread closes a descriptor.
    func openDescriptorCount() -> Int { 1 + (Int32(0)..<4096).count { fcntl($0, F_GETFD) >= 0 } }

    /// Lets this process open a number of further descriptors.
    func limitDescriptors(toFree count: Int) {
        let count = rlim_t(openDescriptorCount() + count)
        var limit = rlimit(rlim_cur: count, rlim_max: count)
        #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
    }

    /// Waits for a timer, so that libdispatch opens the descriptors of its timers now.
    ///
    /// The library waits for its own first timer for 100 ms at most, so on a busy machine libdispatch could open them
    /// later.
    func openDescriptorsOfDispatch() async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
        }
    }

    /// The open descriptors of this process, for a message; opens none itself.
    func openFiles() -> String {
        (0..<256).compactMap { number -> String? in
            var path = [CChar](repeating: 0, count: 256)
            guard readlink("/proc/self/fd/\(number)", &path, path.count - 1) > 0 else { return nil }
            return "\(number) \(String(decoding: path.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))"
        }.joined(separator: "\n")
    }
#endif
