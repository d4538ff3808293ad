// File descriptors that a process has too few of.
import Foundation

extension RequestError {
    /// Whether the process, or the system, had no file descriptor left for it.
    var lacksDescriptors: Bool { (underlying as? POSIXError).map { Self.shortages.contains($0.code) } ?? false }

    private static let shortages: [POSIXErrorCode] = [.EMFILE, .ENFILE]

    /// The error of something that failed before it had what it needed; nil unless that was a descriptor.
    ///
    /// Libraries seldom tell: they report a host without an address, or a certificate that cannot be read. So descriptors
    /// are asked for here too, as many as it takes.
    ///
    /// - Parameters:
    ///   - number: the error number of what failed; 0 when there is none.
    ///   - count: how many it may have had, or wanted, at most: by now it has given them back.
    static func shortage(_ number: Int32 = 0, needing count: Int = 4) -> RequestError? {
        let code =
            POSIXErrorCode(rawValue: number).flatMap { shortages.contains($0) ? $0 : nil } ?? descriptorLimitNow(count)
        return code.map {
            RequestError(
                .connectionFailed,
                "no connection could be made: no file descriptor was left for it (the limit of open files: ulimit -n)",
                underlying: POSIXError($0))
        }
    }

    /// Which limit stands against so many more descriptors; nil when none does.
    private static func descriptorLimitNow(_ count: Int) -> POSIXErrorCode? {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<count {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                return POSIXErrorCode(rawValue: errno).flatMap { shortages.contains($0) ? $0 : nil }
            }
            taken.append(descriptor)
        }
        return nil
    }
}
