// swift-format-ignore-file
// Replaces `import Foundation` when the Apple branches are type-checked on Linux. The module has corelibs Foundation,
// and declarations that only Apple's Foundation, Darwin and CoreFoundation have, or that differ there. The bodies are
// never executed.
//
// A declaration in this file shadows the declaration of the C library with the same name, because sources import only
// this module.
@_exported import Darwin
@_exported import Foundation
@_exported import FoundationNetworking

// MARK: CoreFoundation

public typealias CFAllocator = NSObject
public typealias CFArray = NSArray
public typealias CFData = NSData
public typealias CFDictionary = NSDictionary
public typealias CFError = NSError
public typealias CFString = NSString
public typealias CFTypeRef = AnyObject
public typealias CFTypeID = UInt
public typealias OSStatus = Int32

public final class CFRunLoop {}
public func CFRunLoopWakeUp(_ runLoop: CFRunLoop!) {}
public func CFGetTypeID(_ value: CFTypeRef!) -> CFTypeID { 0 }

// MARK: Foundation

extension NSObject {
    public var observationInfo: UnsafeMutableRawPointer? {
        get { nil }
        set {}
    }
}

public struct NSKeyValueObservingOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public static let new = NSKeyValueObservingOptions(rawValue: 1)
    public static let old = NSKeyValueObservingOptions(rawValue: 2)
    public static let initial = NSKeyValueObservingOptions(rawValue: 4)
    public static let prior = NSKeyValueObservingOptions(rawValue: 8)
}

public struct NSKeyValueObservedChange<Value> {
    public let newValue: Value?
    public let oldValue: Value?
    public let isPrior: Bool
}

public class NSKeyValueObservation: NSObject {
    public func invalidate() {}
}

public protocol _KeyValueCodingAndObserving {}
extension NSObject: _KeyValueCodingAndObserving {}
extension _KeyValueCodingAndObserving {
    @preconcurrency
    public func observe<Value>(
        _ keyPath: KeyPath<Self, Value>, options: NSKeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, NSKeyValueObservedChange<Value>) -> Void
    ) -> NSKeyValueObservation { fatalError() }
}

extension RunLoop {
    public func getCFRunLoop() -> CFRunLoop { CFRunLoop() }
}

extension NSData {
    public enum CompressionAlgorithm: Int {
        case lzfse, lz4, lzma, zlib
    }

    public func compressed(using algorithm: CompressionAlgorithm) throws -> Self { self }
}

public let NSURLAuthenticationMethodClientCertificate = ""
public let NSURLAuthenticationMethodServerTrust = ""

extension Stream {
    public class func getBoundStreams(
        withBufferSize bufferSize: Int, inputStream: UnsafeMutablePointer<InputStream?>?,
        outputStream: UnsafeMutablePointer<OutputStream?>?
    ) {}
}

extension URLSession {
    public func uploadTask(withStreamedRequest request: URLRequest) -> URLSessionUploadTask { fatalError() }
}

// MARK: Darwin

public let F_FULLFSYNC: Int32 = 51
public let RENAME_EXCL: Int32 = 4
public let RLIMIT_NOFILE: Int32 = 8
public let SOCK_STREAM: Int32 = 1
public let SO_NOSIGPIPE: Int32 = 0x1022
public let SO_NWRITE: Int32 = 0x1024

@discardableResult
public func getrlimit(_ resource: Int32, _ limit: UnsafeMutablePointer<rlimit>!) -> Int32 { 0 }
@discardableResult
public func setrlimit(_ resource: Int32, _ limit: UnsafePointer<rlimit>!) -> Int32 { 0 }
@discardableResult
public func renamex_np(_ from: UnsafePointer<CChar>!, _ to: UnsafePointer<CChar>!, _ flags: UInt32) -> Int32 { 0 }
@discardableResult
public func sysctlbyname(
    _ name: UnsafePointer<CChar>!, _ old: UnsafeMutableRawPointer!, _ oldLength: UnsafeMutablePointer<Int>!,
    _ new: UnsafeMutableRawPointer!, _ newLength: Int
) -> Int32 { 0 }

extension stat {
    public var st_mtimespec: timespec { timespec() }
    public var st_ctimespec: timespec { timespec() }
}

public struct __sigaction_u {
    public var __sa_handler: (@convention(c) (Int32) -> Void)!
}

extension sigaction {
    public var __sigaction_u: __sigaction_u { get { fatalError() } set {} }
}

public struct _opaque_pthread_t {}
public typealias pthread_t = UnsafeMutablePointer<_opaque_pthread_t>
@discardableResult
public func pthread_create(
    _ thread: UnsafeMutablePointer<pthread_t?>!, _ attributes: UnsafePointer<pthread_attr_t>?,
    _ start: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 { 0 }
@discardableResult
public func pthread_join(_ thread: pthread_t, _ value: UnsafeMutablePointer<UnsafeMutableRawPointer?>?) -> Int32 { 0 }
@discardableResult
public func pthread_detach(_ thread: pthread_t) -> Int32 { 0 }

public struct os_unfair_lock_s {
    public init() {}
}
public func os_unfair_lock_lock(_ lock: UnsafeMutablePointer<os_unfair_lock_s>) {}
public func os_unfair_lock_unlock(_ lock: UnsafeMutablePointer<os_unfair_lock_s>) {}

extension DispatchSource {
    public static func makeFileSystemObjectSource(fileDescriptor: Int32, eventMask: FileSystemEvent, queue: DispatchQueue? = nil) -> any DispatchSourceProtocol { makeReadSource(fileDescriptor: fileDescriptor, queue: queue) }
}
