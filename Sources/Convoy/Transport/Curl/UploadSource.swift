// Where the bytes of a request's body come from.
#if canImport(CLibcurl)
    import Foundation

    /// Gives the bytes of a body from its start, without ever making the transfer thread wait for them.
    ///
    /// - Thread: the engine's.
    protocol UploadSource: AnyObject {
        /// Puts the next bytes into a buffer that is not empty.
        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep
        /// Begins again at its start; false when that cannot be.
        func rewind() -> Bool
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
        private var pieces: ReadAhead
        /// The piece being taken, and how much of it has been.
        private var current = Data()
        private var offset = 0
        private var hasBeenTakenFrom = false

        /// - Parameter isReady: called on any thread when there is something after ``UploadStep/wait``.
        init(_ body: RequestBody, isReady: @escaping @Sendable () -> Void) {
            self.body = body
            self.isReady = isReady
            pieces = ReadAhead(body, isReady: isReady)
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
            hasBeenTakenFrom = true
            let count = min(buffer.count, current.count - offset)
            let start = current.startIndex + offset
            current.copyBytes(to: buffer, from: start..<(start + count))
            offset += count
            return .bytes(count)
        }

        func rewind() -> Bool {
            // What has been read ahead of the first byte taken is still there.
            guard hasBeenTakenFrom else { return true }
            guard body.canRepeat else { return false }
            (current, offset, hasBeenTakenFrom) = (Data(), 0, false)
            pieces = ReadAhead(body, isReady: isReady)
            pieces.readOn()
            return true
        }
    }

    /// Reads a body ahead of the one who sends it, on a queue of its own.
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
            /// Nothing follows the pieces.
            var isAtEnd = false
            var failure: RequestError?
            /// The taker found nothing and wants to be called.
            var isWanted = false
            var reading: BodyReading?
        }

        private static let limit = 4

        private let body: RequestBody
        private let queue = DispatchQueue(label: "convoy.upload")
        private let state = Locked(State())
        private let isReady: @Sendable () -> Void

        init(_ body: RequestBody, isReady: @escaping @Sendable () -> Void) {
            self.body = body
            self.isReady = isReady
        }

        deinit {
            // Closing a stream and cancelling a sequence call code of the caller's: not here, on the engine's thread.
            guard state.withLock({ $0.reading != nil }) else { return }
            queue.async { [state] in
                let reading = state.withLock { state in
                    defer { state.reading = nil }
                    return state.reading
                }
                withExtendedLifetime(reading) {}
            }
        }

        func next() -> Next {
            let next: Next = state.withLock { state in
                if !state.pieces.isEmpty { return .piece(state.pieces.removeFirst()) }
                if let failure = state.failure { return .failed(failure) }
                guard !state.isAtEnd else { return .end }
                state.isWanted = true
                return .wait
            }
            readOn()
            return next
        }

        /// Has the queue read a piece, if there is room and more to come.
        func readOn() {
            let reads = state.withLock { state in
                guard !state.isReading, !state.isAtEnd, state.failure == nil, state.pieces.count < Self.limit else {
                    return false
                }
                state.isReading = true
                return true
            }
            guard reads else { return }
            // Weakly: who has let go of the body wants no more of it.
            queue.async { [weak self] in self?.readPiece() }
        }

        private func readPiece() {
            do throws(RequestError) {
                switch try begun() {
                case .blocking(let reader): note(Self.piece(of: reader))
                case .waiting(let reader): reader.read { [weak self] in self?.note($0) }
                }
            } catch {
                note(.failure(error))
            }
        }

        private func begun() throws(RequestError) -> BodyReading {
            if let reading = state.withLock({ $0.reading }) { return reading }
            let reading = try body.begin()
            state.withLock { $0.reading = reading }
            return reading
        }

        private func note(_ result: Result<Data?, RequestError>) {
            let calls = state.withLock { state in
                state.isReading = false
                switch result {
                case .success(let piece?): state.pieces.append(piece)
                case .success(nil): state.isAtEnd = true
                case .failure(let error): state.failure = error
                }
                defer { state.isWanted = false }
                return state.isWanted
            }
            readOn()
            if calls { isReady() }
        }

        private static func piece(of reader: any BlockingReader) -> Result<Data?, RequestError> {
            let buffer = LargeBuffers.take()
            let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: LargeBuffers.byteCount)
            let result = reader.read(into: bytes)
            guard case .success(let count) = result, count > 0 else {
                LargeBuffers.giveBack(buffer)
                return result.map { _ in nil }
            }
            return .success(LargeBuffers.data(buffer, count: count))
        }
    }
#endif
