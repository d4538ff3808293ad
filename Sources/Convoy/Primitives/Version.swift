/// The library's version, for the other targets of the package.
package enum Version {
    package static let current = "0.2.0"
}
