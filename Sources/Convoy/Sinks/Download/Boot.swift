// Identifies the current boot of the system.
import Foundation

/// Identifies the current boot of the system.
package enum Boot {
    /// A name that differs after every start of the system; nil when the system has none.
    package static let name: String? = {
        #if canImport(Darwin)
            var length = 0
            guard sysctlbyname("kern.bootsessionuuid", nil, &length, nil, 0) == 0, (1...128).contains(length) else {
                return nil
            }
            var bytes = [UInt8](repeating: 0, count: length)
            guard sysctlbyname("kern.bootsessionuuid", &bytes, &length, nil, 0) == 0 else { return nil }
            return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #else
            guard let data = FileManager.default.contents(atPath: "/proc/sys/kernel/random/boot_id"), !data.isEmpty
            else { return nil }
            return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        #endif
    }()
}
