// Errors caused by the descriptor limit.
import Foundation

extension RequestError {
    /// Whether the process or the system had no free file descriptor for the request.
    var lacksDescriptors: Bool { (underlying as? POSIXError).map { Self.shortages.contains($0.code) } ?? false }

    private static let shortages: [POSIXErrorCode] = [.EMFILE, .ENFILE]

    /// The error of a failure that was caused by a lack of descriptors; nil for other causes.
    ///
    /// Libraries rarely report this cause. They report a host without an address, or a certificate that cannot be
    /// read. The method therefore also tries to open as many descriptors as the failed call needed.
    ///
    /// - Parameters:
    ///   - number: the error number of the failure; 0 if there is none.
    ///   - count: the maximum number of descriptors that the failed call needed, and has released.
    static func shortage(_ number: Int32 = 0, needing count: Int = 4) -> RequestError? {
        let code =
            POSIXErrorCode(rawValue: number).flatMap { shortages.contains($0) ? $0 : nil } ?? descriptorLimitNow(count)
        return code.map {
            RequestError(
                .connectionFailed,
                "no connection could be made: the limit of open files is reached (ulimit -n)",
                underlying: POSIXError($0))
        }
    }

    /// The error of opening this many more descriptors; nil if the limits allow them.
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
