// The source of the bytes of a request's body.
#if canImport(CLibcurl)
    import Foundation

    /// Provides the bytes of a body from its start, without ever blocking the transfer thread.
    ///
    /// - Thread: the engine's.
    protocol UploadSource: AnyObject {
        /// Copies the next bytes to a buffer, which is not empty.
        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep
        /// A source of the same bytes from their start, possibly the same object; nil if they cannot be read again.
        func rewound() -> (any UploadSource)?
    }

    /// The result of ``UploadSource/take(into:)``.
    enum UploadStep {
        /// The number of copied bytes; 0 at the end.
        case bytes(Int)
        /// No bytes are available yet. The source notifies the transfer when it has bytes.
        case wait
        /// Reading failed, and no bytes follow.
        case failed(RequestError)
    }

    extension DataReader: UploadSource {
        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep { .bytes(copy(into: buffer)) }
        func rewound() -> (any UploadSource)? { DataReader(data) }
    }
#endif
