// swift-format-ignore-file
// The used parts of Apple's SQLite module.

public typealias sqlite3_destructor_type = @convention(c) (UnsafeMutableRawPointer?) -> Void
public typealias sqlite3_callback = @convention(c) (UnsafeMutableRawPointer?, Int32, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> Int32
@discardableResult public func sqlite3_open_v2(_: UnsafePointer<CChar>!, _: UnsafeMutablePointer<OpaquePointer?>!, _: Int32, _: UnsafePointer<CChar>!) -> Int32 { 0 }
@discardableResult public func sqlite3_close_v2(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_busy_timeout(_: OpaquePointer!, _: Int32) -> Int32 { 0 }
@discardableResult public func sqlite3_extended_result_codes(_: OpaquePointer!, _: Int32) -> Int32 { 0 }
@discardableResult public func sqlite3_system_errno(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_errmsg(_: OpaquePointer!) -> UnsafePointer<CChar>! { nil }
@discardableResult public func sqlite3_extended_errcode(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_file_control(_: OpaquePointer!, _: UnsafePointer<CChar>!, _: Int32, _: UnsafeMutableRawPointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_changes(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_get_autocommit(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_exec(_: OpaquePointer!, _: UnsafePointer<CChar>!, _: sqlite3_callback!, _: UnsafeMutableRawPointer!, _: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!) -> Int32 { 0 }
@discardableResult public func sqlite3_prepare_v2(_: OpaquePointer!, _: UnsafePointer<CChar>!, _: Int32, _: UnsafeMutablePointer<OpaquePointer?>!, _: UnsafeMutablePointer<UnsafePointer<CChar>?>!) -> Int32 { 0 }
@discardableResult public func sqlite3_step(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_reset(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_finalize(_: OpaquePointer!) -> Int32 { 0 }
@discardableResult public func sqlite3_bind_int64(_: OpaquePointer!, _: Int32, _: Int64) -> Int32 { 0 }
@discardableResult public func sqlite3_bind_null(_: OpaquePointer!, _: Int32) -> Int32 { 0 }
@discardableResult public func sqlite3_bind_text(_: OpaquePointer!, _: Int32, _: UnsafePointer<CChar>!, _: Int32, _: sqlite3_destructor_type!) -> Int32 { 0 }
@discardableResult public func sqlite3_bind_blob(_: OpaquePointer!, _: Int32, _: UnsafeRawPointer!, _: Int32, _: sqlite3_destructor_type!) -> Int32 { 0 }
@discardableResult public func sqlite3_column_type(_: OpaquePointer!, _: Int32) -> Int32 { 0 }
@discardableResult public func sqlite3_column_int64(_: OpaquePointer!, _: Int32) -> Int64 { 0 }
@discardableResult public func sqlite3_column_text(_: OpaquePointer!, _: Int32) -> UnsafePointer<UInt8>! { nil }
@discardableResult public func sqlite3_column_blob(_: OpaquePointer!, _: Int32) -> UnsafeRawPointer! { nil }
@discardableResult public func sqlite3_column_bytes(_: OpaquePointer!, _: Int32) -> Int32 { 0 }
