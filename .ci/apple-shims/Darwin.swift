// swift-format-ignore-file
// That it can be imported turns `#if canImport(Darwin)` round.
@_exported import Glibc
