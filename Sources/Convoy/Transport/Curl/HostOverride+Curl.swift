// Host overrides as libcurl options.
#if canImport(CLibcurl)
    import Foundation

    extension ConnectionOptions.HostOverride {
        /// The override as an entry of `CURLOPT_RESOLVE`.
        var entry: String {
            let addresses = addresses.map { $0.contains(":") && !$0.hasPrefix("[") ? "[\($0)]" : $0 }
            return "\(host):\(port):\(addresses.joined(separator: ","))"
        }

        /// Why libcurl would misread the override, or nil.
        var defect: String? {
            // For libcurl, `*` means every host, `-` before the name removes an entry, and `+` makes the entry
            // expire.
            let isName = host.utf8.allSatisfy { byte in
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                    || [UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_")].contains(byte)
            }
            guard isName, !host.isEmpty, !host.hasPrefix("-") else {
                return "\(host.debugDescription) is not a host name"
            }
            guard (1...65_535).contains(port) else { return "\(port) is not a port" }
            guard !addresses.isEmpty else { return "\(host) has no address" }
            return addresses.first { !Self.isAddress($0) }.map { "\($0.debugDescription) is not an address" }
        }

        private static func isAddress(_ text: String) -> Bool {
            // C code would not see bytes after a NUL.
            guard !text.utf8.contains(0) else { return false }
            var (four, six) = (in_addr(), in6_addr())
            let bare = text.hasPrefix("[") && text.hasSuffix("]") ? String(text.dropFirst().dropLast()) : text
            return inet_pton(AF_INET, text, &four) == 1 || inet_pton(AF_INET6, bare, &six) == 1
        }
    }
#endif
