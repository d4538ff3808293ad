// Where the bytes of a request's body come from.
#if canImport(CLibcurl)
    import Foundation

    /// Gives the bytes of a body from its start, without ever making the transfer thread wait for a disk.
    ///
    /// - Thread: the engine's.
    protocol UploadSource: AnyObject {
        /// Puts the next bytes into a buffer that is not empty.
        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep
        /// Begins again at a place between the start and the end.
        func rewind(to offset: Int64)
    }

    /// What a source has just now.
    enum UploadStep {
        /// So many bytes; none at the end.
        case bytes(Int)
        /// None yet; the source will call.
        case wait
        /// None ever.
        case failed(RequestError)
    }

    /// The bytes of a body in memory.
    final class DataSource: UploadSource {
        private let data: Data
        private var offset = 0

        init(_ data: Data) { self.data = data }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep {
            let count = min(buffer.count, data.count - offset)
            let start = data.startIndex + offset
            data.copyBytes(to: buffer, from: start..<(start + count))
            offset += count
            return .bytes(count)
        }

        func rewind(to offset: Int64) { self.offset = Int(clamping: min(max(0, offset), Int64(data.count))) }
    }

    /// The bytes of a file.
    final class FileSource: UploadSource {
        private let pieces: ReadAhead
        /// The piece being taken, and how much of it has been.
        private var current = Data()
        private var offset = 0

        /// - Parameter isReady: called on any thread when there is something after ``UploadStep/wait``.
        init(_ url: URL, byteCount: Int64, isReady: @escaping @Sendable () -> Void) {
            pieces = ReadAhead(url, byteCount: byteCount, isReady: isReady)
            pieces.readOn()
        }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep {
            if offset == current.count {
                switch pieces.next() {
                case .piece(let piece): (current, offset) = (piece, 0)
                case .end: return .bytes(0)
                case .wait: return .wait
                case .failed(let error): return .failed(error)
                }
            }
            let count = min(buffer.count, current.count - offset)
            let start = current.startIndex + offset
            current.copyBytes(to: buffer, from: start..<(start + count))
            offset += count
            return .bytes(count)
        }

        func rewind(to offset: Int64) {
            (current, self.offset) = (Data(), 0)
            pieces.rewind(to: offset)
        }
    }

    /// Reads a file ahead of the one who sends it, on a queue of its own.
    private final class ReadAhead: Sendable {
        enum Next {
            case piece(Data)
            case end
            case wait
            case failed(RequestError)
        }

        private struct State {
            /// Read and not yet taken.
            var pieces: [Data] = []
            var isReading = false
            var failure: RequestError?
            /// Counts the rewinds: what is read for an earlier one is dropped.
            var generation = 0
            /// Where the next piece begins.
            var nextOffset: Int64 = 0
            /// The taker found nothing and wants to be called.
            var isWanted = false
        }

        private static let limit = 4

        private let file: BodyFile
        private let queue = DispatchQueue(label: "convoy.upload")
        private let state = Locked(State())
        private let isReady: @Sendable () -> Void

        init(_ url: URL, byteCount: Int64, isReady: @escaping @Sendable () -> Void) {
            file = BodyFile(url, byteCount: byteCount)
            self.isReady = isReady
        }

        func next() -> Next {
            let next: Next = state.withLock { state in
                if !state.pieces.isEmpty { return .piece(state.pieces.removeFirst()) }
                if let failure = state.failure { return .failed(failure) }
                guard state.isReading || state.nextOffset < file.byteCount else { return .end }
                state.isWanted = true
                return .wait
            }
            readOn()
            return next
        }

        func rewind(to offset: Int64) {
            state.withLock { state in
                state.generation += 1
                (state.pieces, state.nextOffset, state.failure) = ([], min(max(0, offset), file.byteCount), nil)
                (state.isReading, state.isWanted) = (false, false)
            }
            readOn()
        }

        /// Has the queue read a piece, if there is room and more to come.
        func readOn() {
            let next: (offset: Int64, generation: Int)? = state.withLock { state in
                guard !state.isReading, state.failure == nil, state.pieces.count < Self.limit,
                    state.nextOffset < file.byteCount
                else { return nil }
                state.isReading = true
                return (state.nextOffset, state.generation)
            }
            guard let next else { return }
            queue.async {
                let result = self.readPiece(at: next.offset)
                let calls: Bool = self.state.withLock { state in
                    guard state.generation == next.generation else { return false }
                    state.isReading = false
                    switch result {
                    case .success(let piece):
                        state.pieces.append(piece)
                        state.nextOffset += Int64(piece.count)
                    case .failure(let error): state.failure = error
                    }
                    defer { state.isWanted = false }
                    return state.isWanted
                }
                self.readOn()
                if calls { self.isReady() }
            }
        }

        private func readPiece(at offset: Int64) -> Result<Data, RequestError> {
            let buffer = LargeBuffers.take()
            let result = file.read(into: buffer, atMost: LargeBuffers.byteCount, at: offset)
            if case .failure = result { LargeBuffers.giveBack(buffer) }
            return result.map { LargeBuffers.data(buffer, count: $0) }
        }
    }
#endif
