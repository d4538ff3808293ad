import Foundation
import TestSupport
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    import CLibcurl

    /// Tests copies between files with a kernel that refuses, interrupts or shortens them.
    @Suite(.serialized, .timeLimit(.minutes(5))) struct FileBytesTests {
        /// A kernel with prepared answers.
        ///
        /// It is shared, because a C function captures nothing.
        private enum Kernel {
            /// The answers to the next calls; without a further answer, a call copies all bytes.
            static let answers = Locked<[@Sendable () -> Int]>([])
            /// The offsets of the calls in the source.
            static let offsets = Locked<[Int64]>([])

            /// Copies as many bytes as the next answer says; a negative answer is an error number.
            static let copy: convoy_copy_call = { from, offset, to, position, count, _ in
                guard let offset, let position else { return -1 }
                offsets.withLock { $0.append(offset.pointee) }
                let answer = answers.withLock { $0.isEmpty ? nil : $0.removeFirst() }
                let wanted = min(count, answer?() ?? count)
                guard wanted > 0 else {
                    errno = Int32(-wanted)
                    return wanted == 0 ? 0 : -1
                }
                var bytes = [UInt8](repeating: 0, count: wanted)
                let got = pread(from, &bytes, wanted, off_t(offset.pointee))
                return got < 0 ? got : pwrite(to, bytes, got, off_t(position.pointee))
            }
        }

        private static let content = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        private let directory: TemporaryDirectory
        private let download: Download
        private let part: PartFile

        init() throws {
            directory = try TemporaryDirectory()
            download = Download(DownloadPlan(target: .file(directory.file("target"))))
            part = try PartFile.open(directory.file("part").path, permissions: 0o600)
            // Only an empty part can become a clone of the source, so this byte forces a copy.
            try part.append(Data("a".utf8))
            download.part = part
            Kernel.offsets.withLock { $0 = [] }
        }

        private func write(_ answers: [@Sendable () -> Int]) throws {
            Kernel.answers.withLock { $0 = answers }
            let file = directory.file("source")
            try Self.content.write(to: file)
            let handle = try FileHandle(forReadingFrom: file)
            var source = FileBytes(handle.fileDescriptor, 0..<Int64(Self.content.count), of: handle)
            source.kernelCopy = Kernel.copy
            try download.write(source)
        }

        private func written() throws -> Data { try Data(contentsOf: directory.file("part")) }
        private static var whole: Data { Data("a".utf8) + content }

        /// Reading and writing the bytes shows which file failed.
        ///
        /// An EIO may come from either file.
        @Test(arguments: [0, EXDEV, EINVAL, EOPNOTSUPP, ENOSYS, EPERM, EIO])
        func bytesThatTheKernelDoesNotCopyAreReadAndWritten(code: Int32) throws {
            try write([{ -Int(code) }])
            #expect(try written() == Self.whole)
            #expect(part.isIntact)
            #expect(Kernel.offsets.withLock { $0 } == [0])
        }

        @Test func copyThatStopsInTheMiddleIsFinishedByReading() throws {
            try write([{ 1000 }, { 0 }])
            #expect(try written() == Self.whole)
            #expect(Kernel.offsets.withLock { $0 } == [0, 1000])
        }

        @Test func interruptedCopyIsRepeated() throws {
            try write([{ -Int(EINTR) }, { -Int(EINTR) }])
            #expect(try written() == Self.whole)
            #expect(Kernel.offsets.withLock { $0 } == [0, 0, 0])
        }

        @Test func copyInPiecesContinuesAfterEachPiece() throws {
            try write([{ 1 }, { 70_000 }])
            #expect(try written() == Self.whole)
            #expect(Kernel.offsets.withLock { $0 } == [0, 1, 70_001])
        }

        @Test(arguments: [(ENOSPC, RequestError.Code.diskFull), (EDQUOT, .diskFull)])
        func diskErrorOfACopyFailsTheDownload(code: Int32, expected: RequestError.Code) throws {
            let error = #expect(throws: RequestError.self) { try write([{ 5000 }, { -Int(code) }]) }
            #expect(error?.code == expected)
            // The copied bytes stay, for the next attempt.
            #expect(try written() == Self.whole.prefix(5001))
            #expect(part.isIntact)
            #expect(Kernel.offsets.withLock { $0 } == [0, 5000])
        }

        @Test func cancelledDownloadStopsBetweenTwoPieces() throws {
            try write([
                { [download] in
                    download.stop()
                    return 3000
                }
            ])
            #expect(try written() == Self.whole.prefix(3001))
            #expect(Kernel.offsets.withLock { $0 } == [0])
        }

        @Test func cancelledDownloadReadsNoMoreBytes() throws {
            try write([
                { [download] in
                    download.stop()
                    return -Int(EXDEV)
                }
            ])
            #expect(try written() == Data("a".utf8))
        }

        @Test func fileIsOpenForAppendingAfterEachCopy() throws {
            for answer in [0, 10, -Int(EIO), -Int(ENOSPC)] {
                try? write([{ answer }, { -Int(ENOSPC) }])
                #expect(fcntl(part.descriptor, F_GETFL) & O_APPEND != 0)
            }
        }
    }
#endif
