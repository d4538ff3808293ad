// Undoing the content codings of a body while it arrives (RFC 9110, section 8.4).
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Why a body could not be decoded.
    enum ContentDecodingError: Error, Equatable, CustomStringConvertible {
        /// A coding that was not asked for, or whose library is not there.
        case unsupportedCoding(String)
        /// Not of this coding at all, or damaged: a check value, or a length, is wrong.
        case corrupt(coding: String, reason: String)
        /// The body ended before the coding did.
        case cutShort(coding: String)
        /// The coding ended before the body did.
        case trailingBytes(coding: String)
        /// There is no memory, or the body asks for more of it than its coding allows.
        case outOfMemory(coding: String)

        var description: String {
            switch self {
            case .unsupportedCoding(let coding): "the content coding \"\(coding)\" is not supported"
            case .corrupt(let coding, let reason): "the \(coding) data is corrupt: \(reason)"
            case .cutShort(let coding): "the \(coding) data was cut short"
            case .trailingBytes(let coding): "bytes follow the end of the \(coding) data"
            case .outOfMemory(let coding): "the \(coding) data needs more memory than there is for it"
            }
        }
    }

    /// Decodes one body, chunk by chunk, in memory that does not depend on what it expands to.
    ///
    /// Feed it with ``decode(_:into:)`` until the body ends and ``hasPendingOutput`` is false, then ask ``finish()``.
    /// It keeps 64 KiB for each coding, and the window of the coding's library: 32 KiB (gzip, deflate), at most 8 MiB
    /// (zstd) or 16 MiB (br).
    ///
    /// ## Concurrency
    /// Not Sendable: one thread at a time, and `emit` must not come back to the decoder.
    final class ContentDecoder {
        /// The codings to ask a server for: the value of an `Accept-Encoding` field, empty when there are none.
        static let acceptedCodings = ["gzip", "deflate", "br", "zstd"]
            .filter { contentCoding(named: $0).map { convoy_decoder_is_available($0) != 0 } ?? false }
            .joined(separator: ", ")

        /// In the order of decoding: the coding that was applied last comes first.
        private let stages: [DecodingStage]
        /// The stage that failed, and why; what left it before is still decoded, then this is the result.
        private var failure: (index: Int, error: ContentDecodingError)?
        private var hasReceivedInput = false
        /// How much of the input was used since something came of it.
        private var idleBytes = 0
        /// Empty members of gzip, say, may follow each other without end.
        private static let mostIdleBytes = 1 << 20

        /// Makes the decoder of a body, or nil when there is nothing to undo.
        ///
        /// - Parameter codings: what ``ContentCodings/toUndo(_:of:)`` tells: few names in lower case, the last one applied
        ///   last.
        /// - Throws: `unsupportedCoding` or `outOfMemory`.
        static func makeDecoder(codings: [String]) throws(ContentDecodingError) -> ContentDecoder? {
            var stages: [DecodingStage] = []
            for coding in codings.reversed() { stages.append(try DecodingStage(coding)) }
            return stages.isEmpty ? nil : ContentDecoder(stages)
        }

        private init(_ stages: [DecodingStage]) { self.stages = stages }

        /// Whether a call of ``decode(_:into:)`` with no input may have something to emit or to throw.
        var hasPendingOutput: Bool {
            failure != nil || stages.contains { $0.hasOutput || !$0.output.isEmpty }
        }

        /// Decodes the next bytes of the body.
        ///
        /// `emit` gets each chunk, never empty and of at most 64 KiB, valid during the call. It has taken the chunk
        /// even if it answers false, which stops the decoding there: pass the rest of the input again later, or no
        /// input while ``hasPendingOutput``. What the coding's library gave out before a damaged place is emitted
        /// before the error is thrown; a decoder that has thrown throws the same again.
        ///
        /// - Returns: How many bytes of the input were used; all, unless `emit` stopped it.
        func decode(
            _ input: UnsafeRawBufferPointer, into emit: (UnsafeRawBufferPointer) -> Bool
        ) throws(ContentDecodingError) -> Int {
            var rest = input
            if !input.isEmpty { hasReceivedInput = true }
            // The stage next to the end goes first, so the output of a stage is used up before it is needed again.
            while let index = stages.indices.last(where: { canRun($0, rest) }) {
                do throws(ContentDecodingError) {
                    if index == 0 {
                        let before = rest.count
                        try stages[0].run(&rest)
                        idleBytes += before - rest.count
                        if idleBytes > Self.mostIdleBytes {
                            throw .corrupt(coding: stages[0].name, reason: "nothing came of 1 MiB of it")
                        }
                    } else {
                        try stages[index].run(&stages[index - 1].output)
                    }
                } catch {
                    failure = (index, error)
                }
                if index == stages.count - 1, !stages[index].output.isEmpty {
                    let output = stages[index].output
                    idleBytes = 0
                    stages[index].output = UnsafeRawBufferPointer(start: nil, count: 0)
                    if !emit(output) { return input.count - rest.count }
                }
            }
            if let failure { throw failure.error }
            return input.count - rest.count
        }

        /// Checks, behind the last byte of the body, that every coding came to its end; an empty body is fine.
        func finish() throws(ContentDecodingError) {
            if let failure { throw failure.error }
            precondition(!hasPendingOutput, "call decode until hasPendingOutput is false, then finish")
            guard hasReceivedInput, let stage = stages.first(where: { !$0.isComplete }) else { return }
            throw .cutShort(coding: stage.name)
        }

        private func canRun(_ index: Int, _ rest: UnsafeRawBufferPointer) -> Bool {
            if let failure, index <= failure.index { return false }
            let input = index == 0 ? rest : stages[index - 1].output
            return stages[index].hasOutput || !input.isEmpty
        }
    }

    /// One coding of a body: its decoder and what that has put out last.
    private final class DecodingStage {
        let name: String
        /// What the next stage has not used yet, in `buffer`.
        var output = UnsafeRawBufferPointer(start: nil, count: 0)
        private let decoder: OpaquePointer
        private let buffer: UnsafeMutableRawBufferPointer

        init(_ name: String) throws(ContentDecodingError) {
            guard let coding = contentCoding(named: name), convoy_decoder_is_available(coding) != 0 else {
                throw .unsupportedCoding(name.printablePrefix)
            }
            guard let decoder = convoy_decoder_create(coding) else { throw .outOfMemory(coding: name) }
            self.name = name
            self.decoder = decoder
            // Not before the last throw: it would not be given back.
            buffer = .allocate(byteCount: 65_536, alignment: 16)
        }

        deinit {
            convoy_decoder_destroy(decoder)
            buffer.deallocate()
        }

        /// Whether the decoder may put out more without input.
        var hasOutput: Bool { convoy_decoder_has_output(decoder) != 0 }
        var isComplete: Bool { convoy_decoder_is_complete(decoder) != 0 }

        /// Uses input until there is none or the buffer is full; the previous output must have been used up.
        func run(_ input: inout UnsafeRawBufferPointer) throws(ContentDecodingError) {
            var bytes = input.bindMemory(to: UInt8.self).baseAddress
            var count = input.count
            var written = 0
            let status = convoy_decoder_decode(
                decoder, &bytes, &count, buffer.bindMemory(to: UInt8.self).baseAddress, buffer.count, &written)
            input = UnsafeRawBufferPointer(rebasing: input.suffix(count))
            output = UnsafeRawBufferPointer(rebasing: buffer.prefix(written))
            switch status {
            case CONVOY_DECODING_OK: return
            case CONVOY_DECODING_TRAILING_BYTES: throw .trailingBytes(coding: name)
            case CONVOY_DECODING_NO_MEMORY: throw .outOfMemory(coding: name)
            default:
                let reason = convoy_decoder_reason(decoder).map { String(cString: $0) }
                throw .corrupt(coding: name, reason: reason ?? "no reason given")
            }
        }
    }

    private func contentCoding(named name: String) -> convoy_coding? {
        switch name {
        case "gzip", "x-gzip": CONVOY_CODING_GZIP
        case "deflate": CONVOY_CODING_DEFLATE
        case "br": CONVOY_CODING_BROTLI
        case "zstd": CONVOY_CODING_ZSTD
        default: nil
        }
    }
#endif
