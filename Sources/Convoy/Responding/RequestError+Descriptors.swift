// File descriptors that a process has too few of.
import Foundation

extension RequestError {
    /// Whether the process, or the system, had no file descriptor left for it.
    var lacksDescriptors: Bool { (underlying as? POSIXError).map { Self.shortages.contains($0.code) } ?? false }

    private static let shortages: [POSIXErrorCode] = [.EMFILE, .ENFILE]

    /// The error of something that failed before it had what it needed; nil unless that was a descriptor.
    ///
    /// Libraries seldom tell: they report a host without an address, or a certificate that cannot be read. So descriptors
    /// are asked for here too, a few, as one attempt takes.
    ///
    /// - Parameter number: the error number of what failed; 0 when there is none.
    static func shortage(_ number: Int32 = 0) -> RequestError? {
        let code = POSIXErrorCode(rawValue: number).flatMap { shortages.contains($0) ? $0 : nil } ?? shortageNow()
        return code.map {
            RequestError(
                .connectionFailed,
                "no connection could be made: no file descriptor was left for it (the limit of open files: ulimit -n)",
                underlying: POSIXError($0))
        }
    }

    /// Which limit is met by one more attempt.
    private static func shortageNow() -> POSIXErrorCode? {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<4 {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                return POSIXErrorCode(rawValue: errno).flatMap { shortages.contains($0) ? $0 : nil }
            }
            taken.append(descriptor)
        }
        return nil
    }
}
