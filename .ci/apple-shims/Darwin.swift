// swift-format-ignore-file
// That it can be imported turns `#if canImport(Darwin)` round.
@_exported import Glibc

public let O_EVTONLY: Int32 = 0x8000
