// The source of the bytes of a request's body.
#if canImport(CLibcurl)
    import Foundation

    /// Provides the bytes of a body from its start, without ever blocking the transfer thread.
    ///
    /// - Thread: the engine's.
    protocol UploadSource: AnyObject {
        /// Copies the next bytes to a buffer, which is not empty.
        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep
        /// Restarts at the beginning; false if that is impossible.
        func rewind() -> Bool
    }

    /// The next step of a source.
    enum UploadStep {
        /// The number of copied bytes; 0 at the end.
        case bytes(Int)
        /// No bytes are available yet. The source will call back.
        case wait
        /// Reading failed, and no bytes follow.
        case failed(RequestError)
    }

    /// The bytes of a body in memory.
    final class DataSource: UploadSource {
        private let data: Data
        private var reader: DataReader

        init(_ data: Data) {
            self.data = data
            reader = DataReader(data)
        }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep { .bytes(reader.take(into: buffer)) }

        func rewind() -> Bool {
            reader = DataReader(data)
            return true
        }
    }

    /// The bytes of a body that has to be read.
    final class ReadSource: UploadSource {
        private let body: RequestBody
        private let isReady: @Sendable () -> Void
        private var ahead: ReadAhead
        /// The chunks that are being copied, in order; `offset` counts the copied bytes of the first.
        private var chunks: ArraySlice<Data> = []
        private var offset = 0
        private var hasBeenTakenFrom = false

        /// - Parameter isReady: called on any thread when data, the end or a failure follows ``UploadStep/wait``.
        init(_ body: RequestBody, isReady: @escaping @Sendable () -> Void) {
            self.body = body
            self.isReady = isReady
            ahead = ReadAhead(body, isReady: isReady)
            ahead.readOn()
        }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep {
            var count = 0
            // Copies as many chunks as are available and fit, because each separate send costs a system call.
            while count < buffer.count {
                if chunks.isEmpty {
                    switch ahead.next(into: buffer, mayAsk: count == 0) {
                    case .chunks(let next): chunks = next[...]
                    case .bytes(let bytes): count = bytes
                    case .wait where count == 0: return .wait
                    case .failed(let error) where count == 0: return .failed(error)
                    case .wait, .failed: break
                    }
                    if chunks.isEmpty { break }
                }
                count += takePiece(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
            }
            if count > 0 { hasBeenTakenFrom = true }
            return .bytes(count)
        }

        private func takePiece(into buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let chunk = chunks.first else { return 0 }
            let count = min(buffer.count, chunk.count - offset)
            let start = chunk.startIndex + offset
            chunk.copyBytes(to: buffer, from: start..<(start + count))
            offset += count
            if offset == chunk.count {
                chunks.removeFirst()
                offset = 0
            }
            return count
        }

        func rewind() -> Bool {
            // If no byte was copied yet, the chunks that were read ahead are still valid.
            guard hasBeenTakenFrom else { return true }
            guard body.canRepeat else { return false }
            (chunks, offset, hasBeenTakenFrom) = ([], 0, false)
            ahead = ReadAhead(body, isReady: isReady)
            ahead.readOn()
            return true
        }
    }
#endif
