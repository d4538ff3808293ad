// For tests that need a process of their own: exit tests.
import Foundation

/// Ends this process, a child's, with a failure should it still be there after a while: nobody else would end it.
func endProcessIfStuck(after seconds: Int = 60) {
    Thread.detachNewThread {
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .seconds(seconds))
        _exit(9)
    }
}

#if os(Linux)
    /// What this process has open, for a message; found without a descriptor of its own.
    func openFiles() -> String {
        (0..<256).compactMap { number -> String? in
            var path = [CChar](repeating: 0, count: 256)
            guard readlink("/proc/self/fd/\(number)", &path, path.count - 1) > 0 else { return nil }
            return "\(number) \(String(decoding: path.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))"
        }.joined(separator: "\n")
    }
#endif
