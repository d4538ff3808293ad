// Which Convoy this is.

/// The library's version, for those of the package that tell it.
package enum Version {
    package static let current = "0.2.0"
}
