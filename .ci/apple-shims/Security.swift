// swift-format-ignore-file
// The used parts of Apple's Security framework.
import AppleFoundation

public final class SecCertificate {}
public final class SecIdentity {}
public final class SecTrust {}

public let errSecSuccess: OSStatus = 0
nonisolated(unsafe) public let kSecImportExportPassphrase: CFString = ""
nonisolated(unsafe) public let kSecImportItemCertChain: CFString = ""
nonisolated(unsafe) public let kSecImportItemIdentity: CFString = ""
nonisolated(unsafe) public let kSecImportToMemoryOnly: CFString = ""

public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { CFData() }
public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? { nil }
public func SecCopyErrorMessageString(_ status: OSStatus, _ reserved: UnsafeMutableRawPointer?) -> CFString? { nil }
public func SecIdentityGetTypeID() -> CFTypeID { 0 }
public func SecPKCS12Import(
    _ data: CFData, _ options: CFDictionary, _ items: UnsafeMutablePointer<CFArray?>
) -> OSStatus { 0 }
public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? { nil }
public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool { false }
public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ certificates: CFArray?) -> OSStatus { 0 }
public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ isExclusive: Bool) -> OSStatus { 0 }

public enum tls_protocol_version_t: UInt16, Sendable {
    case TLSv10 = 0x0301
    case TLSv11 = 0x0302
    case TLSv12 = 0x0303
    case TLSv13 = 0x0304
}

extension URLCredential {
    public convenience init(trust: SecTrust) { fatalError() }
    public convenience init(
        identity: SecIdentity, certificates: [Any]?, persistence: URLCredential.Persistence
    ) { fatalError() }
}

extension URLProtectionSpace {
    public var serverTrust: SecTrust? { nil }
}

extension URLSessionConfiguration {
    /// In corelibs it cannot be set.
    public var waitsForConnectivity: Bool {
        get { false }
        set {}
    }
    public var tlsMinimumSupportedProtocolVersion: tls_protocol_version_t {
        get { .TLSv12 }
        set {}
    }
}
