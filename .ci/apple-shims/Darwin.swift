// swift-format-ignore-file
// This module makes `#if canImport(Darwin)` true.
@_exported import Glibc

public let O_EVTONLY: Int32 = 0x8000
