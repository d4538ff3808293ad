// The file name that a response proposes.

extension ResponseHead {
    /// The file name that the server proposes (`Content-Disposition`, RFC 6266 and RFC 8187), made safe.
    ///
    /// Nil when the server proposes no name.
    ///
    /// A safe name is a visible name that stays in its directory. It is the last part of a path, without invisible
    /// characters, without leading or trailing dots and blanks, and at most 255 bytes long.
    /// ``Request/saved(in:verifying:existing:permissions:)`` uses the same name, or the last part of the URL if the
    /// server proposes none.
    ///
    /// - Complexity: O(*n*) for the bytes of the field.
    public var proposedFileName: String? { headerFields.proposedFileName.map { FileName.safe($0) } }
}
