// Safe writing to standard error.
import Foundation

extension Date {
    /// The moment in UTC with milliseconds: `2026-11-21T16:05:05.123Z` (RFC 3339).
    var internetTime: String { formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}

#if !canImport(os)
    enum StandardError {
        /// Writes text to standard error.
        ///
        /// Text that cannot be written is dropped.
        ///
        /// SIGPIPE is blocked, because writing to a pipe without a reader would end the process.
        static func write(_ text: String) {
            var brokenPipe = sigset_t()
            var earlier = sigset_t()
            sigemptyset(&brokenPipe)
            sigaddset(&brokenPipe, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &brokenPipe, &earlier)
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { Foundation.write(STDERR_FILENO, $0.baseAddress, $0.count) }
                if count > 0 {
                    bytes = bytes.dropFirst(count)
                } else if count == 0 || errno != EINTR {
                    // Consumes the pending SIGPIPE of this thread.
                    var atOnce = timespec()
                    if errno == EPIPE, sigismember(&earlier, SIGPIPE) == 0 { sigtimedwait(&brokenPipe, nil, &atOnce) }
                    break
                }
            }
            pthread_sigmask(SIG_SETMASK, &earlier, nil)
        }
    }
#endif
