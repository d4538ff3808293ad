// The name that an answer proposes for its file.

extension ResponseHead {
    /// The name that the server proposes for the file (`Content-Disposition`, RFC 6266 and RFC 8187), made safe; nil when it
    /// proposes none.
    ///
    /// One visible name in any directory: the last part of a path, without what does not show, without dots and blanks at its
    /// ends, and of 255 bytes at most. The same name ``Request/saved(in:verifying:existing:permissions:)`` gives a file;
    /// where there is none it takes the last part of the URL.
    ///
    /// - Complexity: O(*n*) for the bytes of the field.
    public var proposedFileName: String? { headerFields.proposedFileName.map { FileName.safe($0) } }
}
